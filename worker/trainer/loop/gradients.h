// What happens to gradients between the backward pass and the optimizer: their norm, their
// clipping, and whether they are numbers at all. Nothing here waits for a GPU.
//
// Torch's exceptions pass through.
#ifndef WORKER_TRAINER_LOOP_GRADIENTS_H_
#define WORKER_TRAINER_LOOP_GRADIENTS_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace paceline {

struct GradientNorms {
  at::Tensor each;   // [parameters]: the L2 norm of each one's gradient.
  at::Tensor total;  // Scalar: of all together.
};

// Throws c10::ValueError that names the parameters `without` a gradient, if there are any.
void RequireGradients(const std::vector<std::string>& without);

// Of gradients as they are now; 0 of a parameter that has none. In float, or double if a parameter
// is.
GradientNorms NormsOfGradients(const std::vector<at::Tensor>& parameters);

// What gradients of this norm are to be multiplied by: max_norm / (norm + 1e-6), at most 1, as
// torch.nn.utils.clip_grad_norm_ has it. Not finite if the norm is not a number.
double ClipFactor(double norm, double max_norm);
at::Tensor ClipFactor(const at::Tensor& norm, double max_norm);

// Multiplies all gradients there are by it.
void ClipGradients(const std::vector<at::Tensor>& parameters, const at::Tensor& norm,
                   double max_norm);

// A float scalar on the device: 0 if the norm is finite, else 1. Ranks that share a gradient
// share the answer. (The loss is each rank's own; if it is not finite and its gradient is, no
// harm is done to the parameters.)
at::Tensor NotFinite(const at::Tensor& norm);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_GRADIENTS_H_
