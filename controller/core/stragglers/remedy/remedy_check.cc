#include "controller/core/stragglers/remedy/remedy_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace paceline {
namespace {

constexpr size_t kMaxWindows = 64;
constexpr size_t kMinWindows = 4;
constexpr int64_t kMinSteps = 20;
constexpr int64_t kSteps = 1000;
constexpr double kOneSided95 = 1.645;
// Smaller falls do not count.
constexpr double kLeastFall = 0.02;
constexpr double kTolerance = 1.1;

// How long steps may be, as a share of those without the remedy.
double AllowedShare(double predicted_share) {
  return predicted_share <= 1 - kLeastFall ? (1 + predicted_share) / 2
                                           : kTolerance * predicted_share;
}

RemedyEffect EffectOf(double excess, double error) {
  if (excess <= -kOneSided95 * error) return RemedyEffect::kHelped;
  if (excess > kOneSided95 * error) return RemedyEffect::kDidNotHelp;
  return RemedyEffect::kOpen;
}

}  // namespace

void StepMeter::Add(int64_t first, int64_t steps, double seconds) {
  windows_.push_back({first, steps, seconds});
  if (windows_.size() > kMaxWindows) {
    for (size_t i = 0; i < kMaxWindows / 2; ++i) {
      const Window& a = windows_[2 * i];
      const Window& b = windows_[2 * i + 1];
      windows_[i] = {a.first, a.steps + b.steps, a.seconds + b.seconds};
    }
    windows_[kMaxWindows / 2] = windows_.back();
    windows_.resize(kMaxWindows / 2 + 1);
  }
  int64_t all = this->steps();
  while (windows_.size() > kMinWindows && all - windows_.front().steps >= kSteps) {
    all -= windows_.front().steps;
    windows_.erase(windows_.begin());
  }
}

int64_t StepMeter::steps() const {
  int64_t steps = 0;
  for (const Window& window : windows_) steps += window.steps;
  return steps;
}

std::optional<StepMean> StepMeter::Mean(int64_t since) const {
  const auto begin = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const Window& window) { return window.first >= since; });
  int64_t steps = 0;
  double seconds = 0;
  for (auto window = begin; window != windows_.end(); ++window) {
    steps += window->steps;
    seconds += window->seconds;
  }
  const auto count = static_cast<size_t>(windows_.end() - begin);
  if (count < kMinWindows || steps < kMinSteps) return std::nullopt;
  StepMean mean;
  mean.seconds = seconds / static_cast<double>(steps);
  double squares = 0;
  for (auto window = begin; window != windows_.end(); ++window) {
    const double difference = window->seconds - static_cast<double>(window->steps) * mean.seconds;
    squares += difference * difference;
  }
  const auto n = static_cast<double>(count);
  mean.error = std::sqrt(squares * n / (n - 1)) / static_cast<double>(steps);
  return mean;
}

RemedyEffect CheckRemedy(const StepMean& before, double predicted_s, const StepMean& after) {
  const double share = AllowedShare(predicted_s / before.seconds);
  return EffectOf(after.seconds - share * before.seconds,
                  std::hypot(after.error, share * before.error));
}

RemedyEffect CheckPairs(const std::vector<ComparedSteps>& pairs, double predicted_share) {
  if (pairs.size() < kMinWindows) return RemedyEffect::kOpen;
  const double share = AllowedShare(predicted_share);
  double steps = 0;
  double sum = 0;
  for (const ComparedSteps& pair : pairs) {
    steps += static_cast<double>(pair.steps);
    sum += pair.with_s - share * pair.without_s;
  }
  const double mean = sum / steps;
  double squares = 0;
  for (const ComparedSteps& pair : pairs) {
    const double difference =
        pair.with_s - share * pair.without_s - mean * static_cast<double>(pair.steps);
    squares += difference * difference;
  }
  const auto n = static_cast<double>(pairs.size());
  return EffectOf(mean, std::sqrt(squares * n / (n - 1)) / steps);
}

}  // namespace paceline
