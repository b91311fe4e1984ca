// The training of one rank in one generation: the loop, and what happens at its end.
//
// All ranks run the same loop; how closely they keep together is the strategy's affair. Every
// phase of a step is told to the step ring. What follows a step, once its times are known,
// is the progress report's (progress_report.h).
#ifndef WORKER_TRAINER_TRAIN_LOOP_H_
#define WORKER_TRAINER_TRAIN_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/control.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/fault.h"
#include "worker/trainer/gradients.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/optimizer.h"
#include "worker/trainer/progress_report.h"
#include "worker/trainer/saver.h"
#include "worker/trainer/step_undo.h"
#include "worker/trainer/telemetry/profiler.h"
#include "worker/trainer/telemetry/step_timer.h"
#include "worker/trainer/training_state.h"

namespace paceline {

// How training ended.
enum class TrainEnd {
  kDone,  // All steps are, or a stop was requested.
  kLeft,  // As Parts::leaves_after told.
};

// Where a rank exports its weights: "a/b.safetensors" becomes "a/b.rank3.safetensors".
std::string ExportPath(const std::string& file, int rank);

// Thread-compatible. Torch's exceptions pass through.
class TrainLoop {
 public:
  // What the loop works on. All of it outlives the loop.
  struct Parts {
    const TrainerConfig& config;
    std::shared_ptr<const BuiltPlan> plan;  // The first one.
    const Dataset& train_data;
    const Dataset* eval_data;  // Null: no evaluation.
    Model& model;
    Optimizer& optimizer;
    // Of a rank that has met the others of this generation. Says after each moment of the training
    // where it is; what is missing then is added by Leave.
    TrainingState& state;
    bool begins;     // Nobody has trained before: all get what rank 0 has.
    StepUndo* undo;  // Null: a step that does not come to its end need not be taken back.
    Saver* saver;    // Null without a checkpoint directory.
    Groups& groups;
    Control& control;
    Platform& platform;
    StepTimer& timer;
    std::string profile_directory;
    // Whether the generation shall be left now, after so many steps. Asked after each step but the
    // last.
    std::function<bool(int64_t steps_done)> leaves_after;
    // Whether the plans that come now are those of the next generation. Any thread.
    std::function<bool()> has_successor;
    // Whether it has to be left at once. Any moment.
    std::function<bool()> is_over;
  };

  // Collective if it begins: gives all ranks the weights of rank 0.
  explicit TrainLoop(const Parts& parts);
  ~TrainLoop();

  // Before Run: brings back what the checkpoint, if there is one, has of the strategy. Errors as
  // RestoreError.
  absl::Status Resume();

  // Trains until all steps are done, then exports, evaluates and saves; or until a stop is
  // requested; or until the generation is left. DataLoss: the data could not be read.
  // Unavailable: the gradients of other ranks were not finite. Any other: this rank's loss was not,
  // or what was to be written could not.
  absl::StatusOr<TrainEnd> Run();

  // After Run, also if it has thrown: the state is complete then, and figures are told.
  void Leave();

 private:
  absl::Status RunStep(int64_t step);
  // What follows the update of the parameters.
  void EndStep(int64_t step);
  // The rest of a step that was cut off in the generation before.
  void EndOpenStep();
  // The loader for this step, which may be another one than before.
  void OpenData(int64_t step);
  // Throws CollectiveError when the generation is over.
  void CheckGeneration() const;
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
  TrainingState& state_;
  const int64_t first_step_;
  Strategy strategy_;
  Member data_as_;  // How data is taken now.
  std::unique_ptr<BatchLoader> loader_;
  Profiler profiler_;
  Chaos chaos_;
  ProgressReport report_;
  const at::Tensor learning_rate_;  // Of the present step, on the device.
  std::unique_ptr<StepGraph> graph_;
  Batch graph_batch_;           // What the graph reads
  StepResult graph_result_;     // and writes: loss and grad_norm,
  at::Tensor graph_norms_;      // and the norm of each gradient.
  bool after_a_break_ = false;  // Something other than a step went before.
  bool saving_ = false;         // A save began after the step before.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TRAIN_LOOP_H_
