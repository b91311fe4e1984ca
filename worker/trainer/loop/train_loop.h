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
  // Collective if the training begins: then all ranks get rank 0's weights.
  explicit TrainLoop(const TrainingParts& parts);
  ~TrainLoop() override;

  absl::Status Resume() override;
  absl::StatusOr<TrainEnd> Run() override;
  void Leave() override;

 private:
  absl::Status RunStep(int64_t step);
  // Does what follows the update of the parameters.
  void EndStep(int64_t step);
  // Completes a step that was cut off in the previous generation.
  void EndOpenStep();
  // Opens the loader for this step, if it must change.
  void OpenData(int64_t step);
  LocalStep::Hooks HooksOf(int64_t step);
  // Whether a log line is due for this step.
  bool LineIsDue(int64_t step) const;
  // The mean loss over all ranks, on its way to the host: from the strategy (`mean`) or, with ddp,
  // made here if a line is due; otherwise undefined.
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
  bool after_a_break_ = false;  // Something other than a step preceded.
  bool saving_ = false;         // A save began after the last step.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAIN_LOOP_H_
