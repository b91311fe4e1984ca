// Floating-point operations of a model's forward and backward pass, and who says how many they are.
#ifndef WORKER_TRAINER_CORE_MODEL_FLOPS_H_
#define WORKER_TRAINER_CORE_MODEL_FLOPS_H_

namespace paceline {

// Operations by what limits their rate on a device.
struct Flops {
  double half = 0;          // In bfloat16 or float16.
  double matrices = 0;      // In float32: matrix products and attention.
  double convolutions = 0;  // In float32.
  double other = 0;         // In a format that is not known, or has no peak here.

  double total() const { return half + matrices + convolutions + other; }
  Flops& operator+=(const Flops& more) {
    half += more.half;
    matrices += more.matrices;
    convolutions += more.convolutions;
    other += more.other;
    return *this;
  }
  Flops operator*(double factor) const {
    return {half * factor, matrices * factor, convolutions * factor, other * factor};
  }
};

// Mirrors paceline.v1.FlopsSource.
enum class FlopsSource {
  kUnknown,
  kFormula,  // Of a built-in model.
  kCounted,  // By the operators of this process's first step.
  kGiven,    // In the job file.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_MODEL_FLOPS_H_
