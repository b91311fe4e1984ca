// Activation checkpointing: a part of a network only keeps its input for the backward pass and is
// computed again there.
#ifndef WORKER_TRAINER_MODEL_CHECKPOINTED_H_
#define WORKER_TRAINER_MODEL_CHECKPOINTED_H_

#include <ATen/core/Tensor.h>

namespace paceline {

// A function of one tensor and of parameters that always gives the same result.
class Recomputable {
 public:
  virtual ~Recomputable() = default;
  virtual at::Tensor Compute(const at::Tensor& x) const = 0;

  // Called before each computation, and after it, or after the backward pass that belongs to it.
  // Not called after an exception.
  virtual void Begin() const {}
  virtual void End() const {}
};

// Returns part.Compute(x). The backward pass computes it again under this call's autocast, and a
// nested backward pass adds to the parameters' gradients; their hooks run as usual. `part` must
// outlive the backward pass. `x` must require gradients, or the parameters' gradients are lost.
at::Tensor Checkpointed(const Recomputable& part, const at::Tensor& x);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CHECKPOINTED_H_
