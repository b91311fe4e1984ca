// The events of a history, for people, and the violated invariant. A history that fails is run
// again with its events kept: it is the same again.
//
// Thread-compatible.
#ifndef TESTS_SIM_TRACE_H_
#define TESTS_SIM_TRACE_H_

#include <deque>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/timeline.h"

namespace paceline::sim {

class Trace {
 public:
  // Keeps the newest `kept` lines.
  Trace(const Timeline* time, size_t kept) : time_(time), kept_(kept) {}

  template <typename... Args>
  void Add(const Args&... args) {
    if (kept_ == 0) return;
    if (lines_.size() == kept_) lines_.pop_front();
    lines_.push_back(absl::StrFormat("%10.4f  ", static_cast<double>(time_->now()) / kSecond) +
                     absl::StrCat(args...));
  }

  // Records that an invariant does not hold; the first one is kept.
  template <typename... Args>
  void Fail(const Args&... args) {
    if (failure_.has_value()) return;
    failure_ = absl::StrCat(args...);
    Add("FAILED: ", *failure_);
  }

  const std::optional<std::string>& failure() const { return failure_; }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  const Timeline* const time_;
  const size_t kept_;
  std::deque<std::string> lines_;
  std::optional<std::string> failure_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_TRACE_H_
