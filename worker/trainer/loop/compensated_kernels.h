// The rules of compensated_update.h as single passes over bfloat16 arrays, for the CPU.
//
// An element is computed in float, each operation rounded to nearest, and each stored number is
// rounded once more, to bfloat16 and ties to even. So the result is the same bits by every
// instruction set, at every place in an array, and whichever thread computes it.
//
// All arrays have `size` bfloat16 values, given by their bits, and do not overlap. Single-threaded;
// callers split them.
#ifndef WORKER_TRAINER_LOOP_COMPENSATED_KERNELS_H_
#define WORKER_TRAINER_LOOP_COMPENSATED_KERNELS_H_

#include <cstdint>

namespace paceline {

// What is the same for all elements in one step t of AdamW.
struct AdamWScalars {
  float beta1 = 0;
  float mean_share = 0;  // 1 - beta1
  float beta2 = 0;
  float square_share = 0;  // 1 - beta2
  float epsilon = 0;
  float decay = 0;         // Learning rate times weight decay.
  float step_size = 0;     // Learning rate / (1 - beta1^t).
  float inverse_root = 0;  // 1 / sqrt(1 - beta2^t)
};

void AdamWElements(const AdamWScalars& by, uint16_t* parameter, uint16_t* compensation,
                   uint16_t* mean, uint16_t* square, const uint16_t* gradient, int64_t size);

struct SgdScalars {
  float learning_rate = 0;
  float weight_decay = 0;
  float momentum = 0;
  bool nesterov = false;
};

// Without momentum.
void SgdElements(const SgdScalars& by, uint16_t* parameter, uint16_t* compensation,
                 const uint16_t* gradient, int64_t size);

void MomentumElements(const SgdScalars& by, uint16_t* parameter, uint16_t* compensation,
                      uint16_t* velocity, const uint16_t* gradient, int64_t size);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_COMPENSATED_KERNELS_H_
