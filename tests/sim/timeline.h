// The simulated time and its events. Events run one after another, in the order of their times;
// events of the same time in the order in which they were added.
//
// Thread-compatible.
#ifndef TESTS_SIM_TIMELINE_H_
#define TESTS_SIM_TIMELINE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace paceline::sim {

// Since the beginning of the history.
using Micros = int64_t;
inline constexpr Micros kSecond = 1000000;
inline constexpr Micros kMilli = 1000;
inline constexpr Micros kNever = INT64_MAX;

inline Micros ToMicros(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? kNever : absl::ToInt64Microseconds(duration);
}

class Timeline {
 public:
  using Action = std::function<void()>;

  Micros now() const { return now_; }
  int64_t events() const { return events_; }

  void At(Micros time, Action action) {
    entries_.push_back({std::max(time, now_), next_++, std::move(action)});
    std::push_heap(entries_.begin(), entries_.end());
  }
  void After(Micros delay, Action action) { At(now_ + delay, std::move(action)); }

  // Runs the next event unless it is later than `end`. Returns whether there was one.
  bool RunNext(Micros end) {
    if (entries_.empty() || entries_.front().time > end) return false;
    std::pop_heap(entries_.begin(), entries_.end());
    Entry entry = std::move(entries_.back());
    entries_.pop_back();
    now_ = entry.time;
    ++events_;
    entry.action();
    return true;
  }

 private:
  struct Entry {
    Micros time;
    uint64_t number;
    Action action;
    // The heap's top is the earliest.
    bool operator<(const Entry& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  Micros now_ = 0;
  uint64_t next_ = 0;
  int64_t events_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_TIMELINE_H_
