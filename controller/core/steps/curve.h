// The course of a number over a job's steps, in at most kCurvePoints points.
//
// A point stands for `width` steps from a multiple of `width` on, and keeps the minimum, maximum
// and sum of their values. The width is 1 at first. When there is no room for another point, it
// doubles and points merge two by two, so that every value counts the same at any width.
//
//   width 1   steps  1 2 3 4 5 6 7 8 9        width 4   steps  1-3  4-7  8-9
//
// Where steps are made again, their new values replace the old ones, except for those in the point
// in which the job goes on: there both count.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STEPS_CURVE_H_
#define CONTROLLER_CORE_STEPS_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

inline constexpr size_t kCurvePoints = 256;

// 40 bytes; so a curve takes 10 KiB at most.
struct CurvePoint {
  int64_t step = 0;  // Newest step with a value.
  // Of the finite values.
  double least = 0;
  double most = 0;
  double sum = 0;
  uint32_t values = 0;
  // Number of values that are NaN or infinite.
  uint32_t not_finite = 0;
};

class Curve {
 public:
  // `step`: number of steps completed. Ignored: step 0, and another value of the newest step.
  void Add(int64_t step, double value);

  // Steps per point: a power of two.
  int64_t width() const { return int64_t{1} << shift_; }
  // By step.
  const std::vector<CurvePoint>& points() const { return points_; }

 private:
  int64_t PlaceOf(int64_t step) const { return step >> shift_; }
  void Widen();

  int shift_ = 0;
  std::vector<CurvePoint> points_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_CURVE_H_
