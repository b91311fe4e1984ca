// How a rank's time follows the work that it reports: as work^b. If time is proportional to work, b
// is 1, and times are divided by the work. If each step has other costs, or the work says little, b
// is less, and dividing by the work would make ranks seem slow that are not.
//
// b minimises the squares of the residuals (C. F. Gauss, Theoria combinationis observationum, 1821)
// of ranks that are not known to be slow, over about 50 rows. A rank that is slow whatever its work
// does not move it.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_WORK_EXPONENT_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_WORK_EXPONENT_H_

#include <algorithm>
#include <cmath>

namespace paceline {

class WorkExponent {
 public:
  // From 0 to 1; 1 while all work is the same.
  double value() const { return value_; }

  void BeginRow() {
    constexpr double kKeep = 1 - 1.0 / 50;
    value_ = std::clamp((product_ + kPrior) / (square_ + kPrior), 0.0, 1.0);
    square_ *= kKeep;
    product_ *= kKeep;
  }

  // About a rank in this row, in ln: its work minus that of its peers, and its residual after
  // value() was taken into account. NaN: not known.
  void Add(double work, double residual) {
    if (std::isnan(work) || std::isnan(residual)) return;
    square_ += work * work;
    product_ += work * (value_ * work + std::clamp(residual, -kMost, kMost));
  }

 private:
  static constexpr double kPrior = 0.05;  // As eight ranks whose work differs by 8 %, in one row.
  static constexpr double kMost = 0.3;

  double value_ = 1;
  double square_ = 0;  // Sums over ranks and rows.
  double product_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_WORK_EXPONENT_H_
