// A few numbers that ranks sum along with a mean over all of them: whether each has prepared a
// plan that is newer than the active one, and its loss.
//
// Torch's exceptions pass through.
#ifndef WORKER_TRAINER_COMM_STEP_RIDERS_H_
#define WORKER_TRAINER_COMM_STEP_RIDERS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "worker/trainer/comm/group.h"

namespace paceline {

constexpr int64_t kStepRiders = 3;

// This rank's, float [kStepRiders]. `loss` may be undefined.
at::Tensor MakeRiders(bool is_ready, const at::Tensor& loss, c10::Device device);

// Whether all of the ranks are ready, by the sums of their riders. Waits for the device.
bool AllReady(const at::Tensor& sums, int ranks);

// The mean of the losses that were defined, a float scalar on the device. Requires: there is one.
at::Tensor MeanLossOf(const at::Tensor& sums);
bool HasLosses(const at::Tensor& sums);

// Takes a rider back from those that were not summed yet: this rank is not ready.
void SetUnready(const at::Tensor& riders);

// Collective. Whether all ranks have prepared the plan of this version.
bool HaveAll(Group& all, int64_t version, c10::Device device);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STEP_RIDERS_H_
