#include "controller/core/stragglers/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "controller/core/stragglers/median.h"

namespace paceline {
namespace {

constexpr double kGaussian = 1.4826;
constexpr double kFirstSigma = 0.01;
constexpr double kMinSigma = 0.005;
constexpr double kFirstSigmaRows = 2;  // What the first guess counts for.
constexpr double kSigmaRate = 0.05;
constexpr double kCutOff = 3;
constexpr double kMaxRho = 0.9;
constexpr double kRhoPrior = 0.3;
constexpr double kRhoPriorSamples = 100;
constexpr double kForget = 0.998;  // Per row.
constexpr double kTailPrior = 0.005;
constexpr double kTailPriorRows = 40;

}  // namespace

NoiseScale::NoiseScale(int ranks)
    : product_(kRhoPrior * kRhoPriorSamples),
      square_(kRhoPriorSamples),
      last_(static_cast<size_t>(ranks), std::numeric_limits<double>::quiet_NaN()),
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
    if (std::isnan(before)) continue;
    product_ += now * before;
    square_ += (now * now + before * before) / 2;
  }
  level_.rho = square_ > 0 ? std::clamp(product_ / square_, 0.0, kMaxRho) : 0;
  level_.inflation = (1 + level_.rho) / (1 - level_.rho);
  const double alone = far_off_ / std::max(samples_, kTailPriorRows);
  const double following = (continued_ + kTailPrior * kTailPriorRows) / (far_off_ + kTailPriorRows);
  level_.tail = std::max(alone, following);
}

void NoiseScale::AddRun(int far_off_rows) {
  far_off_ += far_off_rows;
  continued_ += far_off_rows - 1;
}

void NoiseScale::SetLevels(absl::Span<const double> levels) {
  const double spread = MedianMagnitude(levels);
  if (!std::isnan(spread)) level_.spread = spread;
}

double NoiseScale::MedianMagnitude(absl::Span<const double> values) {
  size_t count = 0;
  for (const double value : values) {
    if (!std::isnan(value)) scratch_[count++] = std::abs(value);
  }
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return kGaussian * MedianOf(absl::MakeSpan(scratch_).subspan(0, count));
}

}  // namespace paceline
