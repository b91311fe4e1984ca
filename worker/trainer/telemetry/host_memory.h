// The memory of this process, as counted by the kernel.
#ifndef WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_
#define WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_

#include <cstdint>

namespace paceline {

// Bytes; 0 where the kernel does not say.
struct HostMemory {
  int64_t rss = 0;
  int64_t rss_peak = 0;  // Since the last ResetRssPeak, or the process's start.
};

HostMemory ReadHostMemory();

// Resets rss_peak; has no effect on kernels without support.
void ResetRssPeak();

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_
