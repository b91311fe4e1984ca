#include "controller/core/stragglers/detector/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "controller/core/stragglers/detector/median.h"

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kGaussian = 1.4826;
constexpr double kFirstSigma = 0.01;
constexpr double kMinSigma = 0.005;
constexpr double kFirstSigmaRows = 2;  // What the first guess counts as.
constexpr double kSigmaRate = 0.05;
constexpr double kCutOff = 3;
constexpr double kMaxRho = 0.9;
constexpr double kRhoPrior = 0.3;
constexpr double kRhoPriorSamples = 100;
constexpr int kBlockRows = 8;
constexpr double kMeanMagnitude = 0.7979;  // E|x| of a Gaussian of deviation 1.
constexpr double kForget = 0.998;          // Per row.
constexpr double kTailPrior = 0.005;
constexpr double kTailPriorRows = 40;
constexpr double kJobsPerOneFarther = 10'000;
// Before any are seen, differences of 1 % are assumed, as if from so many ranks.
constexpr double kPriorRanks = 8;
constexpr double kPriorSpread = 0.01;
// From simulation: the greatest of few Gaussians, less the median of the others, exceeds the
// deviation that SetLevels computes from them by this much more than it would exceed the true one.
constexpr double kFewRanks = 60;

// What the greatest of `ranks` Gaussians exceeds in one of kJobsPerOneFarther cases.
double FarthestOf(int ranks) {
  const double count = std::max(ranks, 1);
  const double log = std::log(kJobsPerOneFarther * count);
  const double root = std::sqrt(2 * log);
  const double of_many = root - (std::log(log) + std::log(4 * M_PI)) / (2 * root);
  return of_many * (1 + kFewRanks / std::pow(count + kPriorRanks, 2));
}

}  // namespace

NoiseScale::NoiseScale(int ranks)
    : farthest_(FarthestOf(ranks)),
      product_(kRhoPrior * kRhoPriorSamples),
      square_(kRhoPriorSamples),
      block_difference_(kRhoPriorSamples * kMeanMagnitude *
                        std::sqrt(2 * kBlockRows * NoiseLevel().inflation)),
      blocks_(kRhoPriorSamples),
      last_(static_cast<size_t>(ranks), kNone),
      block_(static_cast<size_t>(ranks), Block{0, 0, kNone}),
      scratch_(static_cast<size_t>(ranks)) {
  level_.sigma = kFirstSigma;
}

void NoiseScale::AddRow(absl::Span<const double> residuals) {
  const double magnitude = MedianMagnitude(residuals);
  if (std::isnan(magnitude)) return;
  const double rate = std::max(kSigmaRate, 1 / (static_cast<double>(rows_) + kFirstSigmaRows + 1));
  ++rows_;
  level_.sigma = std::max(kMinSigma, level_.sigma + rate * (magnitude - level_.sigma));

  product_ *= kForget;
  square_ *= kForget;
  block_difference_ *= kForget;
  blocks_ *= kForget;
  samples_ *= kForget;
  far_off_ *= kForget;
  continued_ *= kForget;
  for (size_t rank = 0; rank < residuals.size(); ++rank) {
    const double z = residuals[rank] / level_.sigma;
    const double now = std::isnan(z) ? z : std::clamp(z, -kCutOff, kCutOff);
    const double before = last_[rank];
    last_[rank] = now;
    if (std::isnan(now)) continue;
    samples_ += 1;
    AddToBlock(block_[rank], now);
    if (std::isnan(before)) continue;
    product_ += now * before;
    square_ += (now * now + before * before) / 2;
  }
  level_.rho = square_ > 0 ? std::clamp(product_ / square_, 0.0, kMaxRho) : 0;
  const double block = block_difference_ / blocks_ / kMeanMagnitude;
  level_.inflation =
      std::max((1 + level_.rho) / (1 - level_.rho), block * block / (2 * kBlockRows));
  const double alone = far_off_ / std::max(samples_, kTailPriorRows);
  const double following = (continued_ + kTailPrior * kTailPriorRows) / (far_off_ + kTailPriorRows);
  level_.tail = std::max(alone, following);
}

void NoiseScale::AddToBlock(Block& block, double z) {
  block.sum += z;
  if (++block.rows < kBlockRows) return;
  if (!std::isnan(block.before)) {
    block_difference_ += std::abs(block.sum - block.before);
    blocks_ += 1;
  }
  block = {0, 0, block.sum};
}

void NoiseScale::AddRun(int far_off_rows) {
  far_off_ += far_off_rows;
  continued_ += far_off_rows - 1;
}

void NoiseScale::SetLevels(absl::Span<const double> levels) {
  const double cut = kCutOff * MedianMagnitude(levels);
  double squares = kPriorRanks * kPriorSpread * kPriorSpread;
  int count = 0;
  for (const double level : levels) {
    if (std::isnan(level)) continue;
    squares += std::min(level * level, cut * cut);
    ++count;
  }
  if (2 * count < static_cast<int>(levels.size())) return;
  level_.hardware = farthest_ * std::sqrt(squares / (kPriorRanks + count));
}

double NoiseScale::MedianMagnitude(absl::Span<const double> values) {
  size_t count = 0;
  for (const double value : values) {
    if (!std::isnan(value)) scratch_[count++] = std::abs(value);
  }
  if (count == 0) return kNone;
  return kGaussian * MedianOf(absl::MakeSpan(scratch_).subspan(0, count));
}

}  // namespace paceline
