// Tells whether the kernel has lately killed a process for lack of memory.
//
// Compares the kernel's count with the one of 15 to 30 seconds ago, so that an old kill is
// not taken for the cause of a new death, and one whose victim takes seconds to give its
// memory back still is. Thread-compatible.
#ifndef WORKER_SHIM_OOM_WATCH_H_
#define WORKER_SHIM_OOM_WATCH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace paceline {

// The counter `oom_kill` in the text of /proc/vmstat; 0 when it is missing.
int64_t OomKills(absl::string_view vmstat);

class OomWatch {
 public:
  static constexpr int kSampleSeconds = 15;

  OomWatch();

  // To be called every kSampleSeconds.
  void Sample();

  bool Grew() const;

 private:
  int64_t older_;
  int64_t newer_;
};

}  // namespace paceline

#endif  // WORKER_SHIM_OOM_WATCH_H_
