// What the host's memory and disk do, without torch.
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

// "memory_bandwidth": copies of `bytes` by one thread, in GB copied per second; the median of five,
// or of those that were begun within `limit`. ResourceExhausted when the host has less memory to
// spare than four times that.
absl::StatusOr<std::vector<Measurement>> CheckMemory(size_t bytes = kCheckBytes,
                                                     absl::Duration limit = absl::Seconds(2));

// "disk_write", synced, and "disk_read" of `bytes` in a file of directory `dir`, past the page
// cache where its file system can. Each is cut short when it has taken `limit`. The file has no
// name, so nothing is left of it whatever happens. ResourceExhausted when the disk is nearly full.
absl::StatusOr<std::vector<Measurement>> CheckDisk(const std::string& dir,
                                                   size_t bytes = kCheckBytes,
                                                   absl::Duration limit = absl::Seconds(3));

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_HOST_CHECK_H_
