// How much the ranks' residuals vary when nothing is wrong: the measure of what evidence is worth.
// Pooled over the job, from ranks that are not known to be slow; robust, and forgetting.
//
//   sigma      1.4826 * median |residual| of a row, averaged over rows. The constant makes it the
//              standard deviation of Gaussian noise.
//   inflation  by which the variance of a sum of residuals exceeds that of independent ones: the
//              larger of (1 + rho) / (1 - rho), which is that of AR(1) noise (G. M. Jenkins and
//              D. G. Watts, Spectral Analysis, 1968), with rho the correlation from row to row; and
//              what the sums of blocks of 8 rows show. Residuals are cut off at 3 sigma.
//   tail       how probable it is that a far-off row follows a far-off row: pauses come alone, slow
//              ranks do not.
//   hardware   how far a rank may lie off by differences of the hardware alone: the standard
//              deviation of the ranks' own levels, cut off at 3 times that of their median
//              magnitude, times what the farthest of so many Gaussians exceeds in one job of
//              ten thousand (H. Cramer, Mathematical Methods of Statistics, 1946, 28.6), and more
//              the fewer there are, since few tell their deviation badly.
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

  // So many far-off rows of a rank followed each other, and then it was normal again.
  void AddRun(int far_off_rows);

  // The ranks' own levels by rank; NaN: not known, or not to be counted. Those of less than half of
  // the ranks tell nothing.
  void SetLevels(absl::Span<const double> levels);

  const NoiseLevel& level() const { return level_; }

 private:
  struct Block {
    int rows = 0;
    double sum = 0;
    double before;  // The sum of the block before; NaN: none.
  };

  void AddToBlock(Block& block, double z);
  double MedianMagnitude(absl::Span<const double> values);

  const double farthest_;  // In standard deviations.
  NoiseLevel level_;
  int64_t rows_ = 0;
  double product_;  // Of residuals that follow each other, in sigma, and of their squares.
  double square_;
  double far_off_ = 0;  // Rows, and those that follow one.
  double continued_ = 0;
  double samples_ = 0;
  double block_difference_;   // Sum of |the sum of a block - that of the block before|,
  double blocks_;             // of so many.
  std::vector<double> last_;  // In sigma, by rank.
  std::vector<Block> block_;  // By rank.
  std::vector<double> scratch_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_NOISE_SCALE_H_
