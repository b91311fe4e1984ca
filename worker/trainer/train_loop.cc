#include "worker/trainer/train_loop.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <string>

#include "absl/strings/str_format.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/autocast.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/evaluation.h"
#include "worker/trainer/fault.h"

namespace paceline {
namespace {

Sampler::Options SamplerOptions(const TrainerConfig& config, const ImageShard& data) {
  Sampler::Options options;
  options.samples = data.size();
  options.rank = config.rank();
  options.world_size = config.world_size;
  options.batch = config.batch;
  options.shuffle = config.shuffle;
  options.seed = config.seed;
  return options;
}

std::vector<at::Tensor> TensorsOf(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& one : named) tensors.push_back(one.tensor);
  return tensors;
}

}  // namespace

TrainLoop::TrainLoop(const Parts& parts)
    : parts_(parts),
      config_(parts.config),
      sampler_(SamplerOptions(parts.config, parts.train_data)),
      train_batches_(parts.train_data, config_.batch, parts.model.device()),
      gradients_(parts.group, parts.model.parameters()),
      optimizer_(MakeOptimizer(config_.optimizer, TensorsOf(parts.model.parameters()))) {
  parts_.group.CopyFromRankZero(TensorsOf(parts_.model.buffers()));
  if (parts_.eval_data != nullptr) {
    eval_batches_.emplace(*parts_.eval_data, config_.batch, parts_.model.device());
  }
}

absl::Status TrainLoop::Run() {
  StepRingWriter& ring = parts_.ring;
  logged_at_ns_ = MonotonicNanos();
  for (int64_t step = 0; step < config_.steps; ++step) {
    if (parts_.control.stop_requested()) return absl::OkStatus();
    const auto number = static_cast<uint64_t>(step);

    ring.Enter(Phase::kDataWait, number);
    InjectFaults(config_, step);
    sampler_.Batch(step, &indices_);
    const ImageBatch batch = train_batches_.Load(indices_);

    ring.Enter(Phase::kForward, number);
    gradients_.BeginForward();
    at::Tensor loss;
    {
      const Autocast autocast(config_.bf16, parts_.model.device().type());
      loss = at::cross_entropy_loss(parts_.model.Forward(batch.images), batch.labels);
    }

    ring.Enter(Phase::kBackward, number);
    gradients_.Backward(loss, [&] { ring.Enter(Phase::kCommunication, number); });

    ring.Enter(Phase::kOptimizer, number);
    optimizer_->Step(LearningRate(config_.schedule, step));
    const float loss_value = loss.item<float>();
    ring.EndStep(number, static_cast<uint64_t>(config_.batch), loss_value);

    AfterStep(step, loss_value);
  }
  return Finish();
}

void TrainLoop::AfterStep(int64_t step, float loss) {
  const int64_t done = step + 1;
  if (!std::isfinite(loss) && !warned_) {
    PACELINE_LOG(WARNING) << "the loss of step " << done << " is " << loss
                          << ": the training has diverged; try a smaller learning rate";
    warned_ = true;
  }
  if (done % config_.log_every == 0 || done == config_.steps) LogStep(step, loss);
  if (config_.eval_every > 0 && done % config_.eval_every == 0) EvaluateAt(done);
}

void TrainLoop::LogStep(int64_t step, float loss) {
  at::Tensor mean = at::full({1}, loss, parts_.model.parameters()[0].tensor.options());
  mean = mean.detach();
  parts_.group.Sum(mean);
  const uint64_t now = MonotonicNanos();
  const double seconds = static_cast<double>(now - logged_at_ns_) * 1e-9;
  const int64_t samples = (step + 1 - logged_steps_) * config_.batch * config_.world_size;
  logged_at_ns_ = now;
  logged_steps_ = step + 1;
  PACELINE_LOG(INFO) << absl::StrFormat(
      "step=%d loss=%.9g mean_loss=%.9g lr=%.9g samples_per_s=%.1f", step + 1, loss,
      mean.item<float>() / static_cast<float>(config_.world_size),
      LearningRate(config_.schedule, step), static_cast<double>(samples) / seconds);
}

void TrainLoop::EvaluateAt(int64_t steps_done) {
  if (parts_.eval_data == nullptr || evaluated_at_ == steps_done) return;
  const uint64_t start = MonotonicNanos();
  const EvaluationResult result =
      Evaluate(config_, *parts_.eval_data, *eval_batches_, parts_.model, parts_.group, steps_done);
  evaluated_at_ = steps_done;
  parts_.control.SetEvaluation(result);
  PACELINE_LOG(INFO) << absl::StrFormat("evaluated step=%d accuracy=%.6f loss=%.9g samples=%d",
                                        result.step, result.accuracy, result.loss, result.samples);
  logged_at_ns_ += MonotonicNanos() - start;
}

absl::Status TrainLoop::Finish() {
  EvaluateAt(config_.steps);
  if (config_.rank() == 0 && !config_.checkpoint_directory.empty()) {
    const std::string path = config_.output_directory() + "/final.safetensors";
    const absl::Status saved = SaveWeights(path, parts_.model);
    if (!saved.ok()) return absl::InternalError(saved.message());
    PACELINE_LOG(INFO) << "saved " << path;
  }
  parts_.group.Barrier();
  return absl::OkStatus();
}

}  // namespace paceline
