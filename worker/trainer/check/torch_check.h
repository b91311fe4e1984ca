// Measures torch on this host: matrix products, and collectives between two processes.
#ifndef WORKER_TRAINER_CHECK_TORCH_CHECK_H_
#define WORKER_TRAINER_CHECK_TORCH_CHECK_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/check/measurement.h"

namespace paceline {

// "gemm": median rate of products of two square fp32 matrices with `size` rows, using `threads`
// threads, repeated for `time`.
std::vector<Measurement> CheckGemm(int size, int threads, absl::Duration time);

// "loopback_latency" of a Gloo all-reduce of one number, and "loopback_bandwidth" of one of 16 MiB
// (buffer bytes per second), over the loopback interface with another process of this program.
// `start_other` starts that process, which must run CheckLoopbackAsOther(port).
absl::StatusOr<std::vector<Measurement>> CheckLoopback(
    const std::function<absl::Status(int port)>& start_other);
absl::Status CheckLoopbackAsOther(int port);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECK_TORCH_CHECK_H_
