// The backward pass of a rank, after which every gradient is the mean over the ranks.
//
// This is torch's own Reducer, as Python's DistributedDataParallel uses it: gradients are
// gathered in buckets, and a bucket is reduced as soon as it is full, while the backward
// pass goes on. The gradients are views of the buckets, which saves copying them back. A
// rank that is alone has its mean already and goes without.
//
// Thread-compatible. Torch's exceptions pass through; a failed reduction is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_GRADIENT_MEAN_H_
#define WORKER_TRAINER_COMM_GRADIENT_MEAN_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/model/model.h"

namespace paceline {

class GradientMean {
 public:
  // Makes the parameters those of rank 0. `group` outlives this; the parameters are used in
  // no backward pass after it.
  GradientMean(Group& group, const std::vector<NamedTensor>& parameters);
  ~GradientMean();

  // To be called before each forward pass in training.
  void BeginForward();

  // Computes the gradients of `loss`. `on_computed` is called once, when they are computed
  // and only the rest of the reduction is waited for. Parameters must have no gradient yet.
  void Backward(const at::Tensor& loss, const std::function<void()>& on_computed);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GRADIENT_MEAN_H_
