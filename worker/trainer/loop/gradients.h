// Processes gradients between the backward pass and the optimizer: norms, clipping, and a check for
// values that are not finite. Nothing here waits for a GPU.
//
// Torch's exceptions pass through.
#ifndef WORKER_TRAINER_LOOP_GRADIENTS_H_
#define WORKER_TRAINER_LOOP_GRADIENTS_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace paceline {

struct GradientNorms {
  at::Tensor each;   // [parameters]: L2 norm of each gradient.
  at::Tensor total;  // Scalar: norm of all together.
};

// Throws c10::ValueError naming the parameters `without` a gradient, if there are any.
void RequireGradients(const std::vector<std::string>& without);

// Norms of the current gradients; 0 for a parameter without one. In float, or double if some
// parameter is double.
GradientNorms NormsOfGradients(const std::vector<at::Tensor>& parameters);

// Factor for gradients of this norm: max_norm / (norm + 1e-6), at most 1, like
// torch.nn.utils.clip_grad_norm_. Not finite if the norm is NaN.
double ClipFactor(double norm, double max_norm);
at::Tensor ClipFactor(const at::Tensor& norm, double max_norm);

// Multiplies all existing gradients by the clip factor.
void ClipGradients(const std::vector<at::Tensor>& parameters, const at::Tensor& norm,
                   double max_norm);

// The same for parameters that are a part of the model, whose gradients altogether have the norm
// `total`: all ranks of a replica clip by one factor. `own`: the norms of these; returns them with
// this total. `max_norm` 0: does not clip.
GradientNorms ClipPart(const std::vector<at::Tensor>& parameters, GradientNorms own, double total,
                       double max_norm);

// A float scalar on the device: 0 if the norm is finite, else 1. Ranks that share gradients get the
// same answer. (The loss is each rank's own; a loss that is not finite does no harm to the
// parameters if its gradient is finite.)
at::Tensor NotFinite(const at::Tensor& norm);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_GRADIENTS_H_
