// The training of a rank whose steps keep together with other ranks': by averaging gradients or
// parameters (comm/strategy.h).
//
// All ranks run the same loop; the strategy decides how closely they keep together. Each phase of a
// step is reported to the step ring. When a step's times are known, progress_report.h does the
// rest.
#ifndef WORKER_TRAINER_LOOP_TRAIN_LOOP_H_
#define WORKER_TRAINER_LOOP_TRAIN_LOOP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/comm/batch_norm_groups.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/sample_use.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/generation/quiescence.h"
#include "worker/trainer/loop/local_step.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/report/progress_report.h"
#include "worker/trainer/saving/save_schedule.h"
#include "worker/trainer/telemetry/profiler.h"

namespace paceline {

class TrainLoop : public Training {
 public:
  // Collective if the training begins: then all ranks get rank 0's weights.
  explicit TrainLoop(const TrainingParts& parts);
  ~TrainLoop() override;

  absl::Status Resume() override;
  absl::StatusOr<StepOrder> Next() override;
  LocalStep& step() override { return local_step_; }
  void Updated() override;
  absl::Status EndStep() override;
  JobEvaluation& evaluation() override { return evaluation_; }
  Profiler& profiler() override { return profiler_; }
  bool is_exchanging() const override { return strategy_.is_averaging(); }
  void Leave() override;

 private:
  // What Next does first.
  enum class Stage {
    kEnter,      // Completes a step that was cut off, and an evaluation.
    kTrain,      // Makes the timeouts those of training.
    kStepped,    // A step was made: publishes it, and evaluates.
    kBetween,    // Leaves, if the ranks have agreed to.
    kReady,      // Begins a step, or ends the training.
    kEvaluated,  // All is done but to write it.
  };

  // An order to evaluate after `steps_done` steps, if that is due.
  std::optional<StepOrder> EvaluateAfter(int64_t steps_done);
  bool IsEvaluated(int64_t steps_done) const;
  void CopyStateIfDue(int64_t steps_done);
  // Before parameters or optimizer state change: what is being copied must have been.
  void BeforeChange();
  // For RankPosition::layout. 0 is none: that of the next generation differs again.
  uint64_t Layout() const;
  StepOrder BeginStep(int64_t step);
  LocalStep::Hooks MakeHooks();
  // Of a pass whose batch is there.
  void BeginForward(bool last);
  // Completes a step that was cut off in the previous generation.
  void EndOpenStep();
  // Whose data the step takes.
  const Member& DataOf(int64_t step) const;
  // For the ledger: a run of no steps that begins at `step`, and the present position of the data.
  SampleRun RunAt(int64_t step) const;
  // The step is done, whose data began at `begin`.
  void NoteSamples(int64_t step, const DataPosition& begin);
  // Whether a log line is due for this step.
  bool LineIsDue(int64_t step) const;
  // The mean loss over all ranks, on its way to the host: from the strategy (`mean`) or, with ddp,
  // made here if a line is due; otherwise undefined.
  at::Tensor MeanLoss(int64_t step, const at::Tensor& loss, at::Tensor mean);
  absl::Status Finish();

  const TrainingParts parts_;
  const TrainerConfig& config_;
  TrainingState& state_;
  const int64_t first_step_;
  const int64_t parent_;  // For the ledger.
  Strategy strategy_;
  std::optional<BatchNormGroups> batch_norm_;  // If batch normalisation is synchronised.
  Profiler profiler_;
  ProgressReport report_;
  LocalStep local_step_;
  JobEvaluation evaluation_;
  Stage stage_ = Stage::kEnter;
  std::optional<SaveSchedule> saves_;
  bool all_equal_ = false;      // After the last step.
  bool can_save_ = false;       // The ranks have a model in common after it.
  bool after_a_break_ = false;  // Something other than a step preceded.
  bool saving_ = false;         // A save began after the last step.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAIN_LOOP_H_
