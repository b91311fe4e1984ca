// What torch does on this host: products of matrices, and collectives between two processes.
#ifndef WORKER_TRAINER_CHECK_TORCH_CHECK_H_
#define WORKER_TRAINER_CHECK_TORCH_CHECK_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/check/measurement.h"

namespace paceline {

// "gemm": the median rate of products of two square fp32 matrices of `size` rows by `threads`
// threads, repeated for `time`.
std::vector<Measurement> CheckGemm(int size, int threads, absl::Duration time);

// "loopback_latency" of a Gloo all-reduce of one number, and "loopback_bandwidth" of one of 16 MiB
// (bytes of the buffer per second), with another process of this program on the loopback
// interface: `start_other` starts it and makes it run CheckLoopbackAsOther(port).
absl::StatusOr<std::vector<Measurement>> CheckLoopback(
    const std::function<absl::Status(int port)>& start_other);
absl::Status CheckLoopbackAsOther(int port);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_TORCH_CHECK_H_
