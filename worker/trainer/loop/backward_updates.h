// Updates each parameter within the backward pass, as soon as its gradient is whole, and frees the
// gradient: gradients of all parameters never exist together. Parameters and state become, bit for
// bit, what Optimizer::Step makes of them after the pass.
//
// For a rank that shares its gradients with nobody, in a step of one pass, where nothing has to
// know all gradients first: neither a limit to their norm, nor a check that they are finite.
//
// Thread-compatible; a backward pass may run in another thread. Torch's exceptions pass through.
// After one, some parameters are updated and others are not.
#ifndef WORKER_TRAINER_LOOP_BACKWARD_UPDATES_H_
#define WORKER_TRAINER_LOOP_BACKWARD_UPDATES_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "worker/trainer/loop/gradients.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

class BackwardUpdates {
 public:
  // `optimizer` is that of these parameters, in this order, and must outlive this. There must be
  // no other hook that runs after a parameter's gradient was accumulated.
  BackwardUpdates(const std::vector<NamedTensor>& parameters, Optimizer& optimizer);
  ~BackwardUpdates();
  BackwardUpdates(const BackwardUpdates&) = delete;
  BackwardUpdates& operator=(const BackwardUpdates&) = delete;

  // The next backward pass updates. `learning_rate`: as for Optimizer::Step.
  void Begin(const at::Tensor& learning_rate);

  // After that pass: the norms of its gradients. Throws c10::ValueError, naming them, if parameters
  // had none.
  GradientNorms End();

 private:
  class Hook;

  void Update(size_t index);

  const std::vector<NamedTensor> named_;
  const std::vector<at::Tensor> parameters_;
  Optimizer& optimizer_;
  at::ScalarType norm_type_ = at::kFloat;
  at::Tensor learning_rate_;           // Undefined: the pass does not update.
  std::vector<at::Tensor> norms_;      // Of the gradients that have been used in this pass.
  std::vector<at::Tensor> gradients_;  // Undefined but for the one that is being used.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_BACKWARD_UPDATES_H_
