// The memory of this process, as counted by the kernel, and errors of those who find none.
#ifndef WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_
#define WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace paceline {

// Bytes; 0 where the kernel does not say.
struct HostMemory {
  int64_t rss = 0;
  int64_t rss_peak = 0;  // Since the last ResetRssPeak, or the process's start.
};

HostMemory ReadHostMemory();

// Resets rss_peak; has no effect on kernels without support.
void ResetRssPeak();

// Whether an error of torch with this message says that there was no memory, on the host or on a
// device. (Those of CPUs have no type of their own.)
bool IsOutOfMemory(absl::string_view message);

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_
