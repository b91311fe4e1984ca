// Updates the parameters from their gradients.
//
// One fused kernel handles all parameters; results equal those of torch.optim.SGD and
// torch.optim.AdamW. With OptimizerConfig::compensated, parameters are bfloat16 and have their own
// rules (compensated_update.h). Equal parameters and gradients give equal results, so ranks that
// start equal stay equal.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_LOOP_OPTIMIZER_H_
#define WORKER_TRAINER_LOOP_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/config.h"

namespace paceline {

// The slot of a compensation.
inline constexpr char kCompensation[] = "compensation";

// One tensor per parameter, under the name that torch.optim gives it.
struct OptimizerSlot {
  std::string name;
  std::vector<at::Tensor> tensors;
  // It belongs to the weights: their compensation, with which ranks are equal when their parameters
  // are.
  bool of_weights = false;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter and drops its gradient. `learning_rate` is a scalar on the parameters'
  // device (double on a CPU, float on a GPU). `skip` is a float scalar there or undefined: unless
  // it is 0, parameters and state stay unchanged. Both are read on the device, so a recorded step
  // can be replayed with other values. A parameter without a gradient keeps its value and state.
  void Step(const at::Tensor& learning_rate, const at::Tensor& skip);

  // Like Step, with the same state, but updates `parameters`: others of the same shapes, in the
  // same order. Each gradient has its parameter's type, or is undefined.
  virtual void Update(const std::vector<at::Tensor>& parameters,
                      const std::vector<at::Tensor>& gradients, const at::Tensor& learning_rate,
                      const at::Tensor& skip) = 0;

  // State with the shape of the parameters: nothing (SGD without momentum), "momentum_buffer", or
  // (AdamW) "exp_avg" and "exp_avg_sq"; then "compensation", where there is one.
  virtual std::vector<OptimizerSlot> Slots() const = 0;

  // Number of steps made, a float scalar per parameter: all equal, unless some parameters had no
  // gradient at times. Empty if the optimizer does not count.
  virtual std::vector<at::Tensor> StepCounts() const = 0;

  // The whole state between steps: slots, then counts.
  virtual std::vector<at::Tensor> State() const;
  // Resets the state to that before the first step.
  virtual void Reset();
  // InvalidArgument when the mean of several ranks' State is not a state. Says why, for people.
  virtual absl::Status CheckMean() const { return absl::OkStatus(); }

 protected:
  explicit Optimizer(std::vector<at::Tensor> parameters);

  const std::vector<at::Tensor> parameters_;
};

// The tensors of all slots, one slot after the other.
std::vector<at::Tensor> TensorsOf(const std::vector<OptimizerSlot>& slots);
// Those that are averaged if the optimizer's state is: not those of the weights.
std::vector<at::Tensor> AveragedState(const Optimizer& optimizer);
// The compensation of each parameter; empty: there is none.
std::vector<at::Tensor> CompensationOf(const Optimizer& optimizer);

// A scalar for Optimizer::Step.
at::Tensor MakeLearningRate(c10::Device device);

// `parameters` must be float leaves on one device; contiguous bfloat16 ones if they are
// compensated.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerConfig& config,
                                         std::vector<at::Tensor> parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_OPTIMIZER_H_
