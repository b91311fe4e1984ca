// What a job file describes: one of the models here, its data and its optimizer. Makes the steps
// and evaluations that TrainerRun orders.
#ifndef WORKER_TRAINER_LOOP_BUILT_IN_WORKLOAD_H_
#define WORKER_TRAINER_LOOP_BUILT_IN_WORKLOAD_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/comm/step_graph.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/data/open_dataset.h"
#include "worker/trainer/generation/quiescence.h"
#include "worker/trainer/loop/backward_updates.h"
#include "worker/trainer/loop/gradients.h"
#include "worker/trainer/loop/local_step.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/loop/workload.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/shard/sharded_parameters.h"

namespace paceline {

class FlopCounter;

// Thread-compatible. Torch's exceptions pass through.
class BuiltInWorkload : public Workload {
 public:
  // Both must outlive this.
  BuiltInWorkload(const TrainerConfig& config, Platform& platform);

  // Call first: opens the data, and makes model and optimizer on the device. InvalidArgument: they
  // cannot be had, or do not go together.
  absl::Status Open(at::Device device);

  // Makes the passes and the update of the step that `order` asks for. DataLoss: the data could not
  // be read; Cancelled: its read was interrupted.
  absl::Status MakeStep(const StepOrder& order, LocalStep& step);

  // Scores this rank's share of the evaluation data: every world_size-th sample, so that each
  // counts once, however many ranks there are. Errors as for MakeStep.
  absl::Status Evaluate(const StepOrder& order, JobEvaluation& evaluation);

  ModelTensors& model() override {
    if (sharded_ != nullptr) return *sharded_;
    return *model_;
  }
  Optimizer& optimizer() override { return *optimizer_; }
  bool unused_parameters() const override { return config_.model.unused_parameters; }
  absl::Status CheckSlipstream() override;
  double LearningRate(int64_t step) const override;
  Sampler::Options SamplingAs(const Member& member) const override {
    return SamplerOptions(config_, member, train_data_->size(), mixture_);
  }
  bool evaluates() const override { return eval_data_ != nullptr; }
  std::optional<ObjectFigures> objects() const override { return opener_.objects(); }
  void SetReadInterrupt(std::function<bool()> condition) override {
    opener_.read_interrupt().SetCondition(std::move(condition));
  }
  void OpenData(const Member& member, const DataPosition& position) override;
  DataPosition position() const override { return loader_->position(); }
  int ActiveRanks(const Member& member) const override;
  void CloseData() override;
  bool averages_gradients() const override { return sharded_ != nullptr; }
  void SetGradientGroup(Group* group) override { sharded_->SetGradientGroup(group); }
  bool SetShardGroups(const ShardGroups* groups) override;
  absl::Status FinishUpdate(const at::Tensor& skip) override;
  std::shared_ptr<const ModelTensors> ModelToExport() override;
  absl::StatusOr<std::vector<int64_t>> TrainDry(const Member& member,
                                                const DataPosition& position) override;

 private:
  absl::Status OpenAllData();
  // Divides the model among the ranks of a replica.
  void Shard();
  BatchLoader::Options LoaderOptions(const Member& member, const DataPosition& start) const;
  // Of all ranks, in the next step.
  int64_t SamplesOfStep() const;
  // `counter`: of what the passes compute; null: nobody counts.
  absl::Status RunPasses(LocalStep& step, FlopCounter* counter = nullptr);
  // RunPasses, which it counts for the model.
  absl::Status CountPasses(LocalStep& step);
  void GatherParameters(LocalStep& step);
  // Takes the batches of the step's passes. Requires: graph_.
  absl::StatusOr<LocalStep::Counted> FillGraphBatches(LocalStep& step);
  // Makes the step, with all its passes, as one graph. Requires: graph_.
  absl::Status Replay(LocalStep& step);
  at::Tensor Loss(const Batch& batch);
  // The loss of the batch; of one without samples 0, whose gradients are 0 and become ready in the
  // order of any other's.
  absl::StatusOr<at::Tensor> LossOrZero(const Batch& batch);
  absl::StatusOr<Score> ScoreShare(const Member& member, JobEvaluation& evaluation,
                                   int64_t* samples);
  absl::StatusOr<Score> ScoreBatch(const std::vector<int64_t>& indices, Batch batch);

  const TrainerConfig& config_;
  Platform& platform_;
  DatasetOpener opener_;  // Of all data.
  std::unique_ptr<Dataset> train_data_;
  std::shared_ptr<const Mixture> mixture_;  // Of train_data_; null: it is none.
  std::unique_ptr<Dataset> eval_data_;      // Null: no evaluation.
  std::unique_ptr<Model> model_;
  std::unique_ptr<ShardedParameters> sharded_;  // Of the model; null without shards.
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<BackwardUpdates> backward_updates_;  // Null: the optimizer's step comes after.
  at::Tensor learning_rate_;                           // Of the step under way, on the device.
  bool counts_flops_ = false;                          // Of the next step.

  Member data_as_;  // How data is taken now.
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<StepGraph> graph_;
  std::vector<Batch> graph_batches_;  // The graph's input, by pass,
  at::Tensor graph_loss_;             // and output.
  GradientNorms graph_norms_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_BUILT_IN_WORKLOAD_H_
