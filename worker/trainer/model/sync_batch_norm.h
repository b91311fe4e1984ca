// Batch normalisation over the batches of several ranks.
#ifndef WORKER_TRAINER_MODEL_SYNC_BATCH_NORM_H_
#define WORKER_TRAINER_MODEL_SYNC_BATCH_NORM_H_

#include <ATen/core/Tensor.h>

#include "worker/trainer/comm/group.h"

namespace paceline {

struct BatchNormState {
  at::Tensor weight;  // All are [channels].
  at::Tensor bias;
  at::Tensor running_mean;      // Buffers: moved by `momentum` towards the batch's values.
  at::Tensor running_variance;  // Unbiased.
};

// Computes what torch.nn.SyncBatchNorm computes in training, on any device. x [samples, channels,
// ...] is normalised by mean and variance over the samples of all members of `group`; so is its
// gradient. The gradients of weight and bias are over this rank's samples.
//
// Collective in the forward and the backward pass: one sum each. Throws CollectiveError. `group`
// must outlive the backward pass.
at::Tensor SyncBatchNorm(const at::Tensor& x, const BatchNormState& state, double momentum,
                         double epsilon, Group& group);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_SYNC_BATCH_NORM_H_
