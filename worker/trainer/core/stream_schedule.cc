#include "worker/trainer/core/stream_schedule.h"

#include <algorithm>
#include <numeric>

namespace paceline {

size_t StreamSchedule::FragmentOf(int64_t begun) const {
  const bool periodic = begins.kind == AveragingSchedule::Kind::kPeriodic;
  const int64_t counted = periodic ? begun - begins.warmup_steps : begun;
  return static_cast<size_t>(counted / begins.periods.front() % fragments);
}

std::vector<Fragment> CutIntoFragments(const std::vector<int64_t>& sizes, int64_t fragments) {
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const auto parameters = static_cast<int64_t>(sizes.size());
  std::vector<Fragment> cut;
  int64_t next = 0;  // Parameter.
  int64_t done = 0;  // Values of those before it.
  for (int64_t i = 0; i < fragments; ++i) {
    Fragment& fragment = cut.emplace_back();
    fragment.first = static_cast<size_t>(next);
    fragment.offset = done;
    // Each of the later fragments needs a parameter.
    const int64_t last = std::max(std::min(next + 1, parameters), parameters - (fragments - 1 - i));
    const auto is_short = [&] {
      // The nearer of the two ends is taken.
      const int64_t size = sizes[static_cast<size_t>(next)];
      return (2 * done + size) * fragments <= 2 * total * (i + 1);
    };
    while (next < last && (next == static_cast<int64_t>(fragment.first) || is_short())) {
      done += sizes[static_cast<size_t>(next++)];
    }
    if (i + 1 == fragments) {
      while (next < parameters) done += sizes[static_cast<size_t>(next++)];
    }
    fragment.end = static_cast<size_t>(next);
    fragment.values = done - fragment.offset;
  }
  return cut;
}

}  // namespace paceline
