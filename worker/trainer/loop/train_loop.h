// The training of a rank whose steps keep together with those of others: by the mean of gradients,
// or of parameters (comm/strategy.h).
//
// All ranks run the same loop; how closely they keep together is the strategy's affair. Every
// phase of a step is told to the step ring. What follows a step, once its times are known,
// is the progress report's (progress_report.h).
#ifndef WORKER_TRAINER_LOOP_TRAIN_LOOP_H_
#define WORKER_TRAINER_LOOP_TRAIN_LOOP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/local_step.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/report/progress_report.h"
#include "worker/trainer/saving/save_schedule.h"
#include "worker/trainer/telemetry/profiler.h"

namespace paceline {

class TrainLoop : public Training {
 public:
  // Collective if it begins: gives all ranks the weights of rank 0.
  explicit TrainLoop(const TrainingParts& parts);
  ~TrainLoop() override;

  absl::Status Resume() override;
  absl::StatusOr<TrainEnd> Run() override;
  void Leave() override;

 private:
  absl::Status RunStep(int64_t step);
  // What follows the update of the parameters.
  void EndStep(int64_t step);
  // The rest of a step that was cut off in the generation before.
  void EndOpenStep();
  // The loader for this step, which may be another one than before.
  void OpenData(int64_t step);
  LocalStep::Hooks HooksOf(int64_t step);
  // A line of the log is written for this step.
  bool LineIsDue(int64_t step) const;
  // The mean of the loss over all ranks on its way to the host: the strategy's (`mean`), or,
  // with ddp, made here if a line is due; else undefined.
  at::Tensor MeanLoss(int64_t step, const at::Tensor& loss, at::Tensor mean);
  absl::Status EvaluateAt(int64_t steps_done);
  absl::Status Finish();

  const TrainingParts parts_;
  const TrainerConfig& config_;
  TrainingState& state_;
  const int64_t first_step_;
  Strategy strategy_;
  Profiler profiler_;
  ProgressReport report_;
  LocalStep local_step_;
  std::optional<SaveSchedule> saves_;
  bool after_a_break_ = false;  // Something other than a step went before.
  bool saving_ = false;         // A save began after the step before.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAIN_LOOP_H_
