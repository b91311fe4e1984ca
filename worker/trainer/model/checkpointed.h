// Activation checkpointing: a part of a network keeps nothing but its input for the backward
// pass and is computed a second time there.
#ifndef WORKER_TRAINER_MODEL_CHECKPOINTED_H_
#define WORKER_TRAINER_MODEL_CHECKPOINTED_H_

#include <ATen/core/Tensor.h>

namespace paceline {

// A function of one tensor and of parameters, which gives the same result each time.
class Recomputable {
 public:
  virtual ~Recomputable() = default;
  virtual at::Tensor Compute(const at::Tensor& x) const = 0;
};

// part.Compute(x). In the backward pass it is computed again, under the autocast of this
// call, and a backward pass of its own adds to the parameters' gradients: their hooks run as
// without this. `part` outlives the backward pass. `x` must require gradients, or those of
// the parameters are lost.
at::Tensor Checkpointed(const Recomputable& part, const at::Tensor& x);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CHECKPOINTED_H_
