#include "worker/trainer/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>

#include <vector>

#include "worker/trainer/autocast.h"

namespace paceline {

EvaluationResult Evaluate(const TrainerConfig& config, const ImageShard& data,
                          ImageBatches& batches, Model& model, Group& group, int64_t step) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : model.buffers()) buffers.push_back(buffer.tensor);
  group.CopyFromRankZero(buffers);

  double loss = 0;
  double correct = 0;
  double samples = 0;
  model.SetTraining(false);
  std::vector<int64_t> indices;
  for (int64_t next = config.rank(); next < data.size();) {
    indices.clear();
    for (; next < data.size() && static_cast<int64_t>(indices.size()) < config.batch;
         next += config.world_size) {
      indices.push_back(next);
    }
    const ImageBatch batch = batches.Load(indices);
    const Autocast autocast(config.bf16, batch.images.device().type());
    const at::Tensor scores = model.Forward(batch.images).to(at::kFloat);  // [batch, classes]
    loss += at::cross_entropy_loss(scores, batch.labels, {}, at::Reduction::Sum).item<double>();
    correct += scores.argmax(1).eq(batch.labels).sum().item<double>();
    samples += static_cast<double>(indices.size());
  }
  model.SetTraining(true);

  at::Tensor sums = at::tensor({loss, correct, samples}, at::kDouble).to(model.device());
  group.Sum(sums);
  sums = sums.cpu();
  const double* total = sums.const_data_ptr<double>();
  EvaluationResult result;
  result.step = step;
  result.loss = total[0] / total[2];
  result.accuracy = total[1] / total[2];
  result.samples = static_cast<int64_t>(total[2]);
  return result;
}

}  // namespace paceline
