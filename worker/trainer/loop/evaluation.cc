#include "worker/trainer/loop/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/core/status_macros.h"
#include "worker/trainer/loop/autocast.h"

namespace paceline {
namespace {

Batch OnDevice(Batch batch, c10::Device device) {
  if (device.is_cpu()) return batch;
  batch.inputs = batch.inputs.to(device);
  batch.targets = batch.targets.to(device);
  return batch;
}

// Number of batches in this rank's share.
int64_t BatchesOf(const TrainerConfig& config, int64_t samples) {
  const int64_t world = config.member.world_size;
  const int64_t share = (samples - config.rank() + world - 1) / world;
  return (share + config.member.batch - 1) / config.member.batch;
}

// Sums the scores over this rank's share of the samples.
absl::StatusOr<Score> EvaluateShare(const TrainerConfig& config, const Dataset& data, Model& model,
                                    const EvaluationProgress& on_progress, int64_t* samples) {
  const int64_t all = BatchesOf(config, data.size());
  int64_t done = 0;
  Score sum;
  Batch buffer = data.Allocate(config.member.batch, /*pinned=*/false);
  std::vector<int64_t> indices;
  for (int64_t next = config.rank(); next < data.size();) {
    on_progress(done++, all);
    indices.clear();
    for (; next < data.size() && static_cast<int64_t>(indices.size()) < config.member.batch;
         next += config.member.world_size) {
      indices.push_back(next);
    }
    Batch batch = buffer;
    PACELINE_RETURN_IF_ERROR(data.Read(indices, &batch));
    const Autocast autocast(config.bf16, model.device().type());
    const Score score = model.Evaluate(OnDevice(std::move(batch), model.device()));
    sum.loss += score.loss;
    sum.correct += score.correct;
    sum.predictions += score.predictions;
    *samples += static_cast<int64_t>(indices.size());
  }
  on_progress(done, all);
  return sum;
}

}  // namespace

absl::StatusOr<EvaluationResult> Evaluate(const TrainerConfig& config, const Dataset& data,
                                          Model& model, Group& all, int64_t step,
                                          const EvaluationProgress& on_progress) {
  at::NoGradGuard no_grad;
  all.CopyFromFirst(TensorsOf(model.buffers()));

  int64_t samples = 0;
  absl::StatusOr<Score> score;
  {
    model.SetTraining(false);
    const absl::Cleanup trains_again = [&model] { model.SetTraining(true); };
    score = EvaluateShare(config, data, model, on_progress, &samples);
  }
  PACELINE_RETURN_IF_ERROR(score.status());

  at::Tensor sums =
      at::tensor({score->loss, score->correct, score->predictions, static_cast<double>(samples)},
                 at::kDouble)
          .to(model.device());
  all.Sum(sums);
  sums = sums.cpu();
  const double* total = sums.const_data_ptr<double>();
  EvaluationResult result;
  result.step = step;
  result.loss = total[0] / total[2];
  if (total[1] >= 0) result.accuracy = total[1] / total[2];
  result.samples = static_cast<int64_t>(total[3]);
  return result;
}

}  // namespace paceline
