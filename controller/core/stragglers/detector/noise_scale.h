// How much the ranks' residuals vary when nothing is wrong, which says what evidence is worth.
// Pooled over the ranks of the job that are not known to be slow; robust, and forgets slowly.
//
//   sigma      1.4826 * median |residual| of a row, averaged over rows. The constant makes it the
//              standard deviation of Gaussian noise.
//   inflation  how many times the variance of a sum of residuals is that of independent ones: the
//              larger of (1 + rho) / (1 - rho), as for AR(1) noise (G. M. Jenkins and D. G.
//              Watts, Spectral Analysis, 1968), where rho is the correlation from row to row, and
//              what sums over blocks of 8 rows show. Residuals are cut off at 3 sigma
//   tail       how probable it is that a far-off row follows a far-off row: pauses come alone,
//              slow ranks do not
//   hardware   how far off differences of the hardware alone may put a rank: the standard
//              deviation of the ranks' own levels (cut off at 3 times that of their median
//              magnitude), times what the farthest of so many Gaussians exceeds in one job of ten
//              thousand (H. Cramer, Mathematical Methods of Statistics, 1946, 28.6). Few ranks
//              estimate it badly, so a usual deviation is mixed in, and the factor is larger
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_NOISE_SCALE_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_NOISE_SCALE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace paceline {

struct NoiseLevel {
  double sigma = 0.01;
  double rho = 0.3;
  double inflation = 1.3 / 0.7;
  double tail = 0.01;
  double hardware = 0;
};

class NoiseScale {
 public:
  explicit NoiseScale(int ranks);

  // The residuals of a row by rank; NaN: not known, or not to be counted.
  void AddRow(absl::Span<const double> residuals);

  // A rank had this many far-off rows in succession, and then a normal one.
  void AddRun(int far_off_rows);

  // The ranks' own levels by rank; NaN: not known, or not to be counted. They are ignored if fewer
  // than half of the ranks have one.
  void SetLevels(absl::Span<const double> levels);

  const NoiseLevel& level() const { return level_; }

 private:
  struct Block {
    int rows = 0;
    double sum = 0;
    double before;  // Sum of the block before; NaN: none.
  };

  void AddToBlock(Block& block, double z);
  double MedianMagnitude(absl::Span<const double> values);

  const double farthest_;  // In standard deviations.
  NoiseLevel level_;
  int64_t rows_ = 0;
  double product_;  // Sums, in sigma: of successive residuals' products, and of squares.
  double square_;
  double far_off_ = 0;  // Far-off rows, and those that follow one.
  double continued_ = 0;
  double samples_ = 0;
  double block_difference_;   // Sum of |a block's sum - the sum before|,
  double blocks_;             // and how many were added.
  std::vector<double> last_;  // In sigma, by rank.
  std::vector<Block> block_;  // By rank.
  std::vector<double> scratch_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_NOISE_SCALE_H_
