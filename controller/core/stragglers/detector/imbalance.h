// Whether the ranks' work differs from step to step, as with sequences of different lengths. Then a
// rank's forward and backward are long or short together: the correlation of their residuals,
// pooled over the ranks and about 50 rows, is at least 0.9, and they exceed mere noise.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_IMBALANCE_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_IMBALANCE_H_

#include <cmath>
#include <cstdint>

namespace paceline {

class Imbalance {
 public:
  static constexpr int kRows = 50;
  static constexpr double kCorrelation = 0.9;
  static constexpr double kLeastDeviation = 0.03;

  void BeginRow() {
    const double keep = 1 - 1.0 / kRows;
    count_ *= keep;
    forward_ *= keep;
    backward_ *= keep;
    product_ *= keep;
    ++rows_;
  }

  // Residuals in ln of a rank that is not known to be slow; NaN: not known.
  void Add(double forward, double backward) {
    if (std::isnan(forward) || std::isnan(backward)) return;
    count_ += 1;
    forward_ += forward * forward;
    backward_ += backward * backward;
    product_ += forward * backward;
  }

  bool holds() const {
    return rows_ >= kRows && product_ >= kCorrelation * std::sqrt(forward_ * backward_) &&
           forward_ >= kLeastDeviation * kLeastDeviation * count_;
  }

 private:
  int64_t rows_ = 0;
  double count_ = 0;
  double forward_ = 0;  // Sums of squares.
  double backward_ = 0;
  double product_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_IMBALANCE_H_
