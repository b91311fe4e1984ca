// The training of one rank: the loop, and what happens at its end.
//
// All ranks run the same loop; how closely they keep together is the strategy's affair. Every
// phase of a step is told to the step ring. What follows a step, once its times are known,
// is the progress report's (progress_report.h).
#ifndef WORKER_TRAINER_TRAIN_LOOP_H_
#define WORKER_TRAINER_TRAIN_LOOP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/control.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/gradients.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/optimizer.h"
#include "worker/trainer/progress_report.h"
#include "worker/trainer/saver.h"
#include "worker/trainer/telemetry/profiler.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// Where training begins: anew, or behind a checkpoint, whose state model and optimizer have.
struct TrainStart {
  int64_t step = 0;
  DataPosition position;
  std::unique_ptr<StateReader> checkpoint;  // Null: anew. Let go of when training begins.
  CheckpointFigures figures;                // Of the restore.
};

// Where a rank exports its weights: "a/b.safetensors" becomes "a/b.rank3.safetensors".
std::string ExportPath(const std::string& file, int rank);

// Thread-compatible. Torch's exceptions pass through.
class TrainLoop {
 public:
  // What the loop works on. All of it outlives the loop.
  struct Parts {
    const TrainerConfig& config;
    const TrainingPlan& plan;  // The first one.
    const Dataset& train_data;
    const Dataset* eval_data;  // Null: no evaluation.
    Model& model;
    Optimizer& optimizer;
    TrainStart& start;
    Groups& groups;
    Control& control;
    Platform& platform;
    StepTimer& timer;
    std::string profile_directory;
  };

  // Collective: gives all ranks that begin anew the weights of rank 0.
  explicit TrainLoop(const Parts& parts);
  ~TrainLoop();

  // Before Run: brings back what the checkpoint has of the strategy, and the order in which
  // gradients are added. Collective. Errors of the checkpoint as RestoreError.
  absl::Status Resume();

  // Trains until all steps are done, then exports, evaluates and saves; or until a stop is
  // requested. DataLoss: the data could not be read.
  // Unavailable: the gradients of other ranks were not finite. Any other: this rank's loss was not,
  // or what was to be written could not.
  absl::Status Run();

 private:
  // One or two steps without consequences. Torch's Reducer lays its buckets out anew after the
  // first; with accumulation it divides sums where it multiplied them by the inverse until the
  // second: what it computes depends on how many there were.
  absl::Status SettleBuckets();
  absl::Status RunStep(int64_t step);
  // Loss, gradients and update of a step, pass by pass.
  absl::Status Compute(int64_t step, StepResult* result);
  // The same as one graph of the device. Requires: graph_.
  absl::Status Replay(int64_t step, StepResult* result);
  // Data for one forward pass, counted in `result`.
  absl::StatusOr<Batch> NextBatch(StepResult* result);
  at::Tensor Loss(const Batch& batch);
  // Clips and applies the gradients and drops them; their norms before that.
  GradientNorms UpdateParameters();
  // After the first backward pass: every parameter has a gradient.
  absl::Status CheckGradients() const;
  // The mean of the loss over all ranks on its way to the host: the strategy's (`mean`), or,
  // with ddp, made here if a line is due; else undefined.
  at::Tensor MeanLoss(int64_t step, const at::Tensor& loss, at::Tensor mean);
  absl::Status EvaluateAt(int64_t steps_done);
  absl::Status Finish();
  absl::Status Save(const std::string& path);

  const Parts parts_;
  const TrainerConfig& config_;
  const std::vector<at::Tensor> parameters_;
  Strategy strategy_;
  BatchLoader loader_;
  std::unique_ptr<Saver> saver_;  // Null without a checkpoint directory.
  Profiler profiler_;
  ProgressReport report_;
  const at::Tensor learning_rate_;  // Of the present step, on the device.
  std::unique_ptr<StepGraph> graph_;
  Batch graph_batch_;           // What the graph reads
  StepResult graph_result_;     // and writes: loss and grad_norm,
  at::Tensor graph_norms_;      // and the norm of each gradient.
  int64_t evaluated_at_ = -1;   // Steps done at the latest evaluation.
  bool after_a_break_ = false;  // Something other than a step went before.
  bool saving_ = false;         // A save began after the step before.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TRAIN_LOOP_H_
