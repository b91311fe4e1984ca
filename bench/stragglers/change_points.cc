#include "bench/stragglers/change_points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace paceline::detect {
namespace {

constexpr int kFirst = 20;            // First values, which give the prior.
constexpr int kBefore = 50;           // Values before a change, for comparison.
constexpr double kNegligible = 1e-4;  // Runs of less probability are dropped.
constexpr double kPriorWeight = 0.1;  // Weight of the prior's mean, in values.
constexpr double kPriorShape = 1;
constexpr double kLeastDeviation = 1e-3;
constexpr int kLengths = 1024;

// Logarithm of the factor of Student's t before the power, for a run of each length.
double LogFactor(int length) {
  static const auto table = [] {
    std::array<double, kLengths> values{};
    for (size_t n = 0; n < values.size(); ++n) {
      const double shape = kPriorShape + 0.5 * static_cast<double>(n);
      values[n] = std::lgamma(shape + 0.5) - std::lgamma(shape) - 0.5 * std::log(2 * M_PI * shape);
    }
    return values;
  }();
  return table[static_cast<size_t>(std::min(length, kLengths - 1))];
}

double Mean(const std::deque<double>::const_iterator& begin,
            const std::deque<double>::const_iterator& end) {
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

}  // namespace

void ChangePoints::Begin() {
  prior_.mean = Mean(recent_.begin(), recent_.end());
  double variance = 0;
  for (const double value : recent_) {
    variance += (value - prior_.mean) * (value - prior_.mean) / kFirst;
  }
  prior_.spread = kPriorShape * std::max(variance, kLeastDeviation * kLeastDeviation);
  runs_ = {prior_};
  runs_.front().probability = 1;
  quiet_ = options_.short_run + 1;
}

double ChangePoints::Predict(const Run& run, double value) const {
  const int length = std::min(run.length, kLengths - 1);
  const double weight = kPriorWeight + length;
  const double shape = kPriorShape + 0.5 * length;
  const double scale = run.spread * (weight + 1) / (shape * weight);
  const double square = (value - run.mean) * (value - run.mean) / scale;
  return std::exp(LogFactor(length) - (shape + 0.5) * std::log1p(square / (2 * shape))) /
         std::sqrt(scale);
}

bool ChangePoints::Rose(int run) const {
  const auto change = recent_.end() - run;
  if (recent_.end() - recent_.begin() <= run) return false;
  const auto before =
      recent_.begin() + std::max<std::ptrdiff_t>(0, change - recent_.begin() - kBefore);
  const double rise = Mean(change, recent_.end()) - Mean(before, change);
  return rise > 0 && rise >= options_.least_change;
}

bool ChangePoints::Add(double value) {
  recent_.push_back(value);
  if (runs_.empty()) {
    if (recent_.size() == kFirst) Begin();
    return false;
  }
  if (static_cast<int>(recent_.size()) > kBefore + options_.short_run) recent_.pop_front();

  double total = 0;
  for (Run& run : runs_) {
    run.probability *= Predict(run, value);
    total += run.probability;
  }
  if (total <= 0) return runs_.clear(), recent_.clear(), false;
  for (Run& run : runs_) {
    run.probability *= (1 - options_.hazard) / total;
    const int length = std::min(run.length, kLengths - 1);
    const double weight = kPriorWeight + length;
    const double off = value - run.mean;
    run.mean += off / (weight + 1);
    run.spread += weight * off * off / (2 * (weight + 1));
    if (run.length >= kLengths - 1) {  // From here on the run has a fixed length.
      run.spread *= 1 - 1.0 / kLengths;
    } else {
      ++run.length;
    }
  }
  runs_.erase(std::remove_if(runs_.begin(), runs_.end(),
                             [](const Run& run) { return run.probability < kNegligible; }),
              runs_.end());
  Run fresh = prior_;
  fresh.probability = options_.hazard;
  runs_.push_back(fresh);

  if (quiet_ > 0) return --quiet_, false;
  double of_short = 0;
  const Run* likeliest = &runs_.front();
  for (const Run& run : runs_) {
    if (run.length <= options_.short_run) of_short += run.probability;
    if (run.probability > likeliest->probability) likeliest = &run;
  }
  if (of_short <= options_.probability || likeliest->length < options_.least_run ||
      !Rose(likeliest->length)) {
    return false;
  }
  quiet_ = options_.short_run;
  return true;
}

}  // namespace paceline::detect
