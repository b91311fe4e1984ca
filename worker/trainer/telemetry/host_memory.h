// The memory of this process, as the kernel counts it.
#ifndef WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_
#define WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_

#include <cstdint>

namespace paceline {

// Bytes; 0 where the kernel does not tell.
struct HostMemory {
  int64_t rss = 0;
  int64_t rss_peak = 0;  // Since the last ResetRssPeak, or the start of the process.
};

HostMemory ReadHostMemory();

// Does nothing on a kernel that cannot.
void ResetRssPeak();

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_HOST_MEMORY_H_
