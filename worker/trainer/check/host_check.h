// Measures the host's memory and disk, without torch.
#ifndef WORKER_TRAINER_CHECK_HOST_CHECK_H_
#define WORKER_TRAINER_CHECK_HOST_CHECK_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/check/measurement.h"

namespace paceline {

inline constexpr size_t kCheckBytes = 256 << 20;

// "memory_bandwidth": copies of `bytes` by one thread, in GB copied per second; the median of five
// copies, or of those begun within `limit`. ResourceExhausted when less than four times that memory
// is available.
absl::StatusOr<std::vector<Measurement>> CheckMemory(size_t bytes = kCheckBytes,
                                                     absl::Duration limit = absl::Seconds(2));

// "disk_write" (synced) and "disk_read" of `bytes` in a file in `dir`, bypassing the page cache
// where the file system can. Each stops early after `limit`. The file has no name, so nothing
// remains of it. ResourceExhausted when the disk is nearly full.
absl::StatusOr<std::vector<Measurement>> CheckDisk(const std::string& dir,
                                                   size_t bytes = kCheckBytes,
                                                   absl::Duration limit = absl::Seconds(3));

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_HOST_CHECK_H_
