#include "controller/core/stragglers/detector/rank_watch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline {
namespace {

// In theory a false alarm has probability e^-20 per start.
constexpr double kEvidence = 20;
constexpr double kClipBoth = kEvidence / 3.9;  // 4 rows.
constexpr double kClipOne = kEvidence / 4.9;   // 5 rows.
constexpr double kClipLeast = kEvidence / 40;
constexpr double kClipAgainst = kEvidence / 2;
constexpr double kMostEvidence = kEvidence + kClipBoth;
constexpr double kReleaseEvidence = 10;
constexpr double kSlowShare = 0.55;
constexpr double kPersistentShare = 0.75;
constexpr double kTicks = 2;      // A rank's forward and backward, and its peers': four roundings.
constexpr double kFirstRows = 8;  // At first the noise is only guessed.
constexpr int kMostSeen = 1000;
constexpr int kMinMedian = 24;
constexpr double kMedianSigmas = 3;  // Precision of the verification.
// With few rows the verification asks for more, at most for twice as much with this many rows.
constexpr double kCautionRows = 12;
constexpr double kMedianLoss = 1.2533;  // The deviation of a Gaussian median / that of the mean.
constexpr double kMeanDifference = 1.1284;  // E|a - b| of independent Gaussians of deviation 1.
constexpr double kOwnScaleRows = 50;
constexpr double kOwnScaleSlack = 1.15;
constexpr double kRecentScaleRows = 8;
constexpr double kRecentScaleSlack = 1.4;
constexpr double kMostOwnRho = 0.9;
constexpr double kMedianDifference = 0.9539;  // Median of |a - b| of the same.
constexpr double kReleaseScaleSlack = 1.5;    // For 24 rows and more.
constexpr double kLeastReleaseSigma = 0.005;
constexpr int kLevelRows = 100;
constexpr int kLeastLevelRows = 20;
constexpr double kTailRate = 0.005;
// An episode that was persistent takes this many times the rows of another one to end.
constexpr double kPersistentRelease = 5;

// With this many rows, noise moves the median by at most `slow`, within kMedianSigmas deviations.
double PreciseRows(double slow, double sigma, const NoiseLevel& noise) {
  const double wanted = kMedianSigmas * kMedianLoss * sigma / slow;
  return wanted * wanted * noise.inflation;
}

}  // namespace

RankWatch::Change RankWatch::Update(const WatchRow& row, const NoiseLevel& noise,
                                    const WatchOptions& options) {
  if (ended_) Forget();
  Learn(row, noise);
  const double sigma = Sigma(noise);
  const double slow = std::clamp(noise.sigma, options.min_slowdown, options.max_slowdown);
  CountRun(row, noise);
  Collect(row);
  if (state_ == State::kHealthy) {
    if (!Gather(row, slow, sigma, noise)) return Change::kNone;
    state_ = State::kSuspect;
    released_ = 0;
    run_ = 0;
    estimate_ = Estimate(row, noise);
    return Change::kSuspect;
  }
  if (Release(row, slow, noise, options)) {
    const bool persistent = state_ == State::kPersistent;
    state_ = State::kHealthy;
    ended_ = true;
    return persistent ? Change::kRecovered : Change::kTransient;
  }
  if (state_ == State::kPersistent || row.held) return Change::kNone;
  if (row.residual > slow / 2) ++doubtful_rows_;
  if (released_ <= 0) {
    slow_rows_ += doubtful_rows_;
    doubtful_rows_ = 0;
  }
  const bool long_enough =
      slow_rows_ >= options.persistent_steps + PreciseRows(slow, sigma, noise) &&
      job_s_ >= options.persistent_s;
  if (!long_enough && !recurrent_) return Change::kNone;
  const double limit = Limit(kPersistentShare * slow, row, noise);
  if (Median(std::min(episode_rows_, kMinMedian)) <= limit ||
      Median(std::min(episode_rows_, kKept)) <= limit) {
    return Change::kNone;
  }
  const SlowdownEstimate estimate = Estimate(row, noise);
  if (estimate.low <= 1) return Change::kNone;
  state_ = State::kPersistent;
  estimate_ = estimate;
  return Change::kPersistent;
}

double RankWatch::Limit(double least, const WatchRow& row, const NoiseLevel& noise) const {
  double hardware = noise.hardware;
  if (former_rows_ >= kLeastLevelRows) {
    const double error = noise.sigma * std::sqrt(noise.inflation / former_rows_);
    hardware = std::min(hardware, std::max(former_level_, 0.0) + least + kMedianSigmas * error);
  }
  return std::max({least, hardware, kTicks * row.tick});
}

double RankWatch::lost_share() const { return job_s_ > 0 ? lost_s_ / job_s_ : 0; }

SlowdownEstimate RankWatch::Estimate(const WatchRow& row, const NoiseLevel& noise) const {
  const int count = std::min(episode_rows_, kKept);
  std::array<float, kKept> sorted;
  for (int i = 0; i < count; ++i) {
    sorted[static_cast<size_t>(i)] = Residual(i);
  }
  std::sort(sorted.begin(), sorted.begin() + count);
  const double half = 0.98 * std::sqrt(count * std::max(noise.inflation, OwnInflation(count)));
  const auto at = [&](double position) {
    return std::exp(sorted[static_cast<size_t>(std::clamp<double>(position, 0, count - 1))]);
  };
  const double middle = (count - 1) / 2.0;
  SlowdownEstimate estimate;
  estimate.slowdown = std::exp(Median(count));
  const double rounding = std::exp(row.tick);
  estimate.low = at(std::floor(middle - half)) / rounding;
  estimate.high = at(std::ceil(middle + half)) * rounding;
  return estimate;
}

// The inflation of the last residuals, as a slow rank may vary otherwise than healthy ones. Follows
// from how often two successive ones are on the same side of the median (for Gaussians rho = sin(pi
// / 2 s), s being the correlation of the signs).
double RankWatch::OwnInflation(int count) const {
  if (count < 2) return 1;
  const double median = Median(count);
  int same = 0;
  for (int i = 1; i < count; ++i) {
    same += (Residual(i) > median) == (Residual(i - 1) > median) ? 1 : 0;
  }
  const double signs = 2.0 * same / (count - 1) - 1;
  const double rho = std::clamp(std::sin(M_PI / 2 * signs), 0.0, kMostOwnRho);
  return (1 + rho) / (1 - rho);
}

// The rank's noise, which may exceed others'. It comes from differences of rows, which a constant
// level does not change: being slow does not make a rank noisy.
double RankWatch::Sigma(const NoiseLevel& noise) const {
  const double own =
      std::max(difference_ / kOwnScaleSlack, recent_difference_ / kRecentScaleSlack) /
      kMeanDifference / std::sqrt(1 - noise.rho);
  return std::max(noise.sigma, own) * std::sqrt(1 + kFirstRows / seen_);
}

void RankWatch::Learn(const WatchRow& row, const NoiseLevel& noise) {
  const double usual = kMeanDifference * noise.sigma * std::sqrt(1 - noise.rho);
  if (seen_ == 0) {
    difference_ = recent_difference_ = usual;
    last_ = row.residual;
  }
  seen_ = std::min(seen_ + 1, kMostSeen);
  const double difference = std::abs(row.residual - last_);
  const auto take = [&](double& mean, double rows) {
    mean += (std::min(difference, 3 * std::max(mean, usual)) - mean) / rows;
  };
  take(difference_, std::min(seen_ + kFirstRows, kOwnScaleRows));
  take(recent_difference_, kRecentScaleRows);
  last_ = row.residual;
  if (state_ != State::kHealthy || !row.usual) {
    away_rows_ = 0;
    return;
  }
  const double cut = 3 * noise.sigma;
  away_rows_ = std::abs(row.residual - level_) > cut ? away_rows_ + 1 : 0;
  if (away_rows_ >= kLevelRows) {
    level_ = Median(kKept);
    level_rows_ = kKept;
    away_rows_ = 0;
  }
  level_rows_ = std::min(level_rows_ + 1, kLevelRows);
  level_ += std::clamp(row.residual - level_, -cut, cut) / level_rows_;
}

void RankWatch::CountRun(const WatchRow& row, const NoiseLevel& noise) {
  ended_run_ = 0;
  if (state_ != State::kHealthy) return;
  tail_ -= kTailRate * tail_;
  if (row.residual > std::max(0.05, 4 * noise.sigma)) {
    ++run_;
  } else if (run_ > 0) {
    ended_run_ = run_;
    tail_ += kTailRate * run_;
    run_ = 0;
  }
}

void RankWatch::Collect(const WatchRow& row) {
  residuals_[static_cast<size_t>(next_)] = static_cast<float>(row.residual);
  next_ = (next_ + 1) % kKept;
  ++rows_;
  if (state_ != State::kHealthy) ++episode_rows_;
  forward_.Add(row.forward);
  backward_.Add(row.backward);
  lost_s_ += row.lost_s;
  job_s_ += row.job_s;
}

bool RankWatch::Gather(const WatchRow& row, double slow, double sigma, const NoiseLevel& noise) {
  const bool both = !(row.backward < slow / 2);
  const double tail = std::max(noise.tail, tail_);
  const double clip = std::clamp(-std::log(tail), kClipLeast, both ? kClipBoth : kClipOne);
  int candidate = -1;
  bool any = false;
  for (size_t i = 0; i < kShifts; ++i) {
    const double shift = slow * (1 << i);
    const double ratio = shift / (sigma * sigma * noise.inflation) * (row.residual - shift / 2);
    const double evidence = evidence_[i] + std::clamp(ratio, -kClipAgainst, clip);
    if (evidence <= 0) {
      evidence_[i] = 0;
      evidence_rows_[i] = 0;
      continue;
    }
    if (evidence_rows_[i]++ == 0) evidence_step_[i] = row.step;
    evidence_[i] = std::min(evidence, kMostEvidence);
    any = true;
    if (evidence_[i] > kEvidence &&
        (candidate < 0 || evidence_rows_[i] < evidence_rows_[static_cast<size_t>(candidate)])) {
      candidate = static_cast<int>(i);
    }
  }
  if (!any) {
    former_level_ = level_;
    former_rows_ = level_rows_;
    Forget();
    return false;
  }
  if (candidate < 0) return false;
  const int since = evidence_rows_[static_cast<size_t>(candidate)];
  const double precise = PreciseRows(slow, sigma, noise);
  const int count =
      std::min({since, kKept, std::max(kMinMedian, static_cast<int>(std::ceil(precise)))});
  const double caution = std::min(std::sqrt(precise / count), kCautionRows / count);
  const double limit = Limit((kSlowShare + caution) * slow, row, noise);
  if (Median(count) <= limit || Mean(count, 2 * limit) <= limit) return false;
  since_step_ = evidence_step_[static_cast<size_t>(candidate)];
  episode_rows_ = since;
  slow_rows_ = doubtful_rows_ = 0;
  for (int i = 0; i < std::min(since, kKept); ++i) slow_rows_ += Residual(i) > slow / 2 ? 1 : 0;
  return true;
}

bool RankWatch::Release(const WatchRow& row, double slow, const NoiseLevel& noise,
                        const WatchOptions& options) {
  const double step = kReleaseEvidence / options.release_steps;
  const double sigma = ReleaseSigma(row, noise);
  const double ratio = slow / (sigma * sigma * noise.inflation) * (slow / 2 - row.residual);
  released_ = std::max(0.0, released_ + std::clamp(ratio, -step, step));
  const double wanted = kReleaseEvidence * (state_ == State::kPersistent ? kPersistentRelease : 1);
  return released_ >= wanted - 1e-9;
}

// The group's noise, or the rank's own if that is less. Of differences the median: neither the step
// at which the rank became well, nor a few pauses move it.
double RankWatch::ReleaseSigma(const WatchRow& row, const NoiseLevel& noise) const {
  const int count = std::min(episode_rows_, kKept) - 1;
  if (count < kMinMedian) return noise.sigma;
  std::array<float, kKept> differences;
  for (int i = 0; i < count; ++i) {
    differences[static_cast<size_t>(i)] = std::abs(Residual(i) - Residual(i + 1));
  }
  const double median =
      MedianOf(absl::MakeSpan(differences).subspan(0, static_cast<size_t>(count)));
  const double own = kReleaseScaleSlack * median / kMedianDifference / std::sqrt(1 - noise.rho);
  return std::min(noise.sigma, std::max({own, row.tick, kLeastReleaseSigma}));
}

void RankWatch::Forget() {
  ended_ = false;
  rows_ = episode_rows_ = slow_rows_ = 0;
  recurrent_ = false;
  forward_ = backward_ = {};
  lost_s_ = job_s_ = 0;
  evidence_ = {};
  evidence_rows_ = {};
}

double RankWatch::Mean(int count, double cut) const {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += std::clamp<double>(Residual(i), -cut, cut);
  return sum / count;
}

double RankWatch::Median(int count) const {
  if (count == 0) return 0;
  std::array<float, kKept> values;
  for (int i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = Residual(i);
  }
  return MedianOf(absl::MakeSpan(values).subspan(0, static_cast<size_t>(count)));
}

}  // namespace paceline
