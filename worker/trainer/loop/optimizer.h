// The update of the parameters from their gradients.
//
// One fused kernel goes over all parameters; the result is that of torch.optim.SGD and
// torch.optim.AdamW. Equal parameters and gradients give equal results, so ranks that start
// equal stay equal.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_LOOP_OPTIMIZER_H_
#define WORKER_TRAINER_LOOP_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/config.h"

namespace paceline {

// A tensor for each parameter, by the name that torch.optim gives it.
struct OptimizerSlot {
  std::string name;
  std::vector<at::Tensor> tensors;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter and drops its gradient. `learning_rate` is a scalar on the
  // parameters' device (double on a CPU, float on a GPU); `skip` a float scalar there, or
  // undefined: unless it is 0, parameters and state stay as they are. Both are read on the
  // device, so that a recorded step may be repeated with others. A parameter without a gradient
  // stays as it is, with its state.
  void Step(const at::Tensor& learning_rate, const at::Tensor& skip);

  // The same, with the same state, of `parameters` in the place of its own: others of the same
  // shapes, in the same order. A gradient is of its parameter's type, or undefined.
  virtual void Update(const std::vector<at::Tensor>& parameters,
                      const std::vector<at::Tensor>& gradients, const at::Tensor& learning_rate,
                      const at::Tensor& skip) = 0;

  // What it keeps between steps with the shape of the parameters: nothing (SGD without momentum),
  // their "momentum_buffer", or (AdamW) "exp_avg" and "exp_avg_sq".
  virtual std::vector<OptimizerSlot> Slots() const = 0;

  // Steps that it has made, as a float scalar for each parameter: all of one value, unless some had
  // no gradient at times. Empty if it does not count.
  virtual std::vector<at::Tensor> StepCounts() const = 0;

  // All that it keeps between steps: slots, then counts.
  std::vector<at::Tensor> State() const;
  // It goes on as if it had made no step.
  void Reset();

 protected:
  explicit Optimizer(std::vector<at::Tensor> parameters);

  const std::vector<at::Tensor> parameters_;
};

// The tensors of all slots, one slot after the other: what is averaged if the optimizer's state is.
std::vector<at::Tensor> TensorsOf(const std::vector<OptimizerSlot>& slots);

// A scalar for Optimizer::Step.
at::Tensor MakeLearningRate(c10::Device device);

// `parameters` are float leaves on one device.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config,
                                         std::vector<at::Tensor> parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_OPTIMIZER_H_
