#include "slipstream/window.h"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

constexpr double kSteps = 2;
constexpr double kCollectiveShare = 0.35;
constexpr double kCopiesShare = 0.03;
constexpr double kWindowsPerCap = 4;
constexpr double kShareOfTraining = 1.0 / 16;
constexpr int64_t kFrozenSteps = 32;
constexpr int64_t kMostFrozenSteps = 64;
constexpr absl::Duration kUnknown = absl::Milliseconds(100);

}  // namespace

void Window::Add(const Round& round) {
  if (round.step > absl::ZeroDuration()) latest_.step = round.step;
  if (round.collective > absl::ZeroDuration()) latest_.collective = round.collective;
  if (round.copies > absl::ZeroDuration()) latest_.copies = round.copies;
  done_ = round.done;
  ++rounds_;
  if (round.stretched) ++stretched_;
  const bool freezes = stretched_ > kStretchedAllowed;
  if (!freezes && rounds_ < kRoundsPerLook) return;
  if (freezes) {
    frozen_steps_ = frozen_steps_ == 0 ? kFrozenSteps : kMostFrozenSteps;
  } else if (stretched_ == 0) {
    frozen_steps_ = frozen_steps_ == kMostFrozenSteps ? kFrozenSteps : 0;
  }
  rounds_ = stretched_ = 0;
}

double Window::CheapSteps() const {
  if (latest_.step == absl::ZeroDuration()) return kSteps;
  return std::max({kSteps, absl::FDivDuration(latest_.collective, latest_.step) / kCollectiveShare,
                   absl::FDivDuration(latest_.copies, latest_.step) / kCopiesShare});
}

double Window::Steps(const WindowBounds& bounds) const {
  const double longest = std::max(kSteps, kShareOfTraining * static_cast<double>(done_));
  const double steps =
      std::min(longest, std::max(CheapSteps(), static_cast<double>(frozen_steps_)));
  return std::clamp(steps, static_cast<double>(bounds.min_steps),
                    static_cast<double>(bounds.max_steps));
}

absl::Duration Window::Patience() const {
  if (latest_.step == absl::ZeroDuration()) return absl::InfiniteDuration();
  return (kWindowsPerCap - 1) * CheapSteps() * latest_.step;
}

absl::Duration Window::Length(const WindowBounds& bounds) const {
  return latest_.step > absl::ZeroDuration() ? Steps(bounds) * latest_.step : kUnknown;
}

int64_t Window::Cap(const WindowBounds& bounds) const {
  const double windows = frozen_steps_ > 0 ? 1 : kWindowsPerCap;
  return std::min(static_cast<int64_t>(std::ceil(windows * Steps(bounds))), bounds.max_cap);
}

}  // namespace paceline
