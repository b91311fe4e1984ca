// Steps of AdamW and SGD on bfloat16 weights that keep what rounding takes from them.
//
// Beside a parameter p is its compensation c, so that the weight is p + c: an update that is less
// than half a unit in the last place of p changes c, and later p. All that is stored is bfloat16;
// the rest is float. With gradient g, learning rate h, weight decay d, step t = 1, 2, ...:
//
//   AdamW:  m = beta1 m + (1 - beta1) g
//           v = beta2 v + (1 - beta2) g^2
//           u = c - h d (p + c) - h / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//   SGD:    g = g + d (p + c);  b = momentum b + g
//           u = c - h (nesterov ? g + momentum b : b)
//   both:   p' = bfloat16(p + u);  c' = bfloat16(u - (p' - p))
//
// AdamW is the rule of AnyPrecisionAdamW with Kahan summation (pytorch/torchdistx,
// src/python/torchdistx/optimizers/anyprecision_optimizer.py) with all of its types bfloat16. That
// one rounds after each operation, and multiplies p itself by 1 - h d, which in bfloat16 changes
// nothing unless h d is 0.2 to 0.4 % or more.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_LOOP_COMPENSATED_UPDATE_H_
#define WORKER_TRAINER_LOOP_COMPENSATED_UPDATE_H_

#include <ATen/core/Tensor.h>

namespace paceline {

// A tensor of weights. Both are bfloat16, contiguous and of the same shape.
struct CompensatedWeights {
  at::Tensor parameter;
  at::Tensor compensation;
};

// Sets the weights to `wide`, which is float or double. What is left of them is some 16 bits.
// Setting them to the sum of both again changes neither, so that ranks which get the same weights
// in different ways have the same parameters.
void SetWeights(const at::Tensor& wide, const CompensatedWeights& weights);

// What a step takes besides the weights. Scalars are on the weights' device, as for
// Optimizer::Step.
struct UpdateInputs {
  at::Tensor gradient;  // Bfloat16, of the weights' shape.
  at::Tensor learning_rate;
  at::Tensor step;  // Float scalar t of AdamW.
  at::Tensor skip;  // Undefined, or unless it is 0, nothing changes.
};

struct AdamWRule {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

struct SgdRule {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

// Change the weights and their state, which are like the parameter. On a CPU by the kernels of
// compensated_kernels.h on several threads, else by torch's operations. `velocity`: undefined
// without momentum.
void UpdateByAdamW(const AdamWRule& rule, const CompensatedWeights& weights, const at::Tensor& mean,
                   const at::Tensor& square, const UpdateInputs& inputs);
void UpdateBySgd(const SgdRule& rule, const CompensatedWeights& weights, const at::Tensor& velocity,
                 const UpdateInputs& inputs);

// The same by torch's operations, on any device, which read no scalar on the host. Take some
// hundreds of MiB for large tensors.
void UpdateByAdamWOperations(const AdamWRule& rule, const CompensatedWeights& weights,
                             const at::Tensor& mean, const at::Tensor& square,
                             const UpdateInputs& inputs);
void UpdateBySgdOperations(const SgdRule& rule, const CompensatedWeights& weights,
                           const at::Tensor& velocity, const UpdateInputs& inputs);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_COMPENSATED_UPDATE_H_
