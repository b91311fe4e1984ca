// The update of the parameters from their gradients.
//
// One fused kernel goes over all parameters; the result is that of torch.optim.SGD and
// torch.optim.AdamW. Equal parameters and gradients give equal results, so ranks that start
// equal stay equal.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_OPTIMIZER_H_
#define WORKER_TRAINER_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "worker/trainer/config.h"

namespace paceline {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter and drops its gradient. Throws when one has no gradient.
  virtual void Step(double learning_rate) = 0;
};

// `parameters` are float leaves on one device.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config,
                                         std::vector<at::Tensor> parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_OPTIMIZER_H_
