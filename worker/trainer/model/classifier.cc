#include "worker/trainer/model/classifier.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/stack.h>

namespace paceline {

at::Tensor Classifier::Loss(const Batch& batch) {
  const at::Tensor scores = Forward(batch.inputs);
  return at::cross_entropy_loss(scores.flatten(0, -2), batch.targets.flatten());
}

Score Classifier::Evaluate(const Batch& batch) {
  at::NoGradGuard no_grad;
  const at::Tensor targets = batch.targets.flatten();
  const at::Tensor scores = Forward(batch.inputs).flatten(0, -2).to(at::kFloat);
  const at::Tensor loss = at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum);
  const at::Tensor correct = scores.argmax(1).eq(targets).sum();
  // Only one copy from the device.
  const at::Tensor sums = at::stack({loss.to(at::kDouble), correct.to(at::kDouble)}).cpu();
  Score score;
  score.loss = sums.const_data_ptr<double>()[0];
  score.correct = sums.const_data_ptr<double>()[1];
  score.predictions = static_cast<double>(targets.numel());
  return score;
}

}  // namespace paceline
