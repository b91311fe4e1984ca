// Synchronous data-parallel training of one rank: the loop, and what happens at its end.
//
// All ranks run the same loop in step; they meet in the backward pass of each step. Every
// phase of a step is told to the step ring. Log lines, one each `log_every` steps:
//
//   step=10 loss=2.30258509 mean_loss=2.30258512 lr=0.1 samples_per_s=512.3
//
// with the number of steps done, the loss of this rank's batch, its mean over the ranks, the
// learning rate of that step, and the samples of all ranks per second since the last line.
#ifndef WORKER_TRAINER_TRAIN_LOOP_H_
#define WORKER_TRAINER_TRAIN_LOOP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/image_shard/image_shard.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/gradient_mean.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"
#include "worker/trainer/control.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/image_batches.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/optimizer.h"

namespace paceline {

// Thread-compatible. Torch's exceptions pass through.
class TrainLoop {
 public:
  // What the loop works on. All of it outlives the loop.
  struct Parts {
    const TrainerConfig& config;
    const ImageShard& train_data;
    const ImageShard* eval_data;  // Null: no evaluation.
    Model& model;
    Group& group;
    Control& control;
    StepRingWriter& ring;
  };

  // Collective: gives all ranks the weights of rank 0.
  explicit TrainLoop(const Parts& parts);

  // Trains until all steps are done, then evaluates and saves; or until a stop is requested.
  // An error of the saving is returned.
  absl::Status Run();

 private:
  // Evaluates, saves on rank 0, and leaves together with the other ranks.
  absl::Status Finish();
  // What follows a step, outside of its time.
  void AfterStep(int64_t step, float loss);
  void LogStep(int64_t step, float loss);
  void EvaluateAt(int64_t steps_done);

  const Parts parts_;
  const TrainerConfig& config_;
  const Sampler sampler_;
  ImageBatches train_batches_;
  std::optional<ImageBatches> eval_batches_;
  GradientMean gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<int64_t> indices_;
  bool warned_ = false;        // That the loss is not finite.
  int64_t evaluated_at_ = -1;  // Steps done at the latest evaluation.
  int64_t logged_steps_ = 0;   // Steps done at the latest log line,
  uint64_t logged_at_ns_ = 0;  // and its time, moved on by evaluations.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TRAIN_LOOP_H_
