// Detects whether the kernel has recently killed a process for lack of memory.
//
// Compares the kernel's count with the one of 15 to 30 seconds ago. So an old kill is not blamed
// for a new death, but a kill still is whose victim takes seconds to free its memory.
// Thread-compatible.
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

  // Call this every kSampleSeconds.
  void Sample();

  bool Grew() const;

 private:
  int64_t older_;
  int64_t newer_;
};

}  // namespace paceline

#endif  // WORKER_SHIM_OOM_WATCH_H_
