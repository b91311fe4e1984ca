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
  return ScoreOf(SumsOf(Forward(batch.inputs).flatten(0, -2), targets), targets.numel());
}

at::Tensor Classifier::SumsOf(at::Tensor scores, const at::Tensor& targets) {
  scores = scores.to(at::kFloat);
  const at::Tensor loss = at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum);
  const at::Tensor correct = scores.argmax(1).eq(targets).sum();
  return at::stack({loss.to(at::kDouble), correct.to(at::kDouble)});
}

Score Classifier::ScoreOf(const at::Tensor& sums, int64_t predictions) {
  const at::Tensor on_host = sums.cpu();  // Only one copy from the device.
  Score score;
  score.loss = on_host.const_data_ptr<double>()[0];
  score.correct = on_host.const_data_ptr<double>()[1];
  score.predictions = static_cast<double>(predictions);
  return score;
}

}  // namespace paceline
