// The training of a rank with Slipstream (slipstream/slipstream.h): each rank makes steps at its
// own pace; what is common to all happens at stops, at which all ranks stand still with the same
// model.
//
// Steps are counted twice:
//
//   steps of the job   rank-steps over ranks. Schedules, periods and reports go by them. A rank
//                      learns of those that others make when a round finishes; until then it takes
//                      its own for a measure of all. The records in the step ring carry this
//                      number: it never falls, but may repeat (this rank is faster than the
//                      others) or leave gaps (it is slower). So records of the same number are of
//                      the same time on all ranks, which is what a comparison of ranks needs,
//                      however far their own counts are apart. Lines of the log and figures count
//                      finished rounds only.
//   own steps          of this rank, one by one. Disturbances on purpose go by them.
//
// A checkpoint holds for each rank, as "slipstream/progress", int64 [4]: epoch and offset of its
// next batch (core/sampler.h), own steps, and what the job has done beyond whole steps, in
// rank-steps. With another number of ranks, or from another strategy, all go on from the
// manifest's position in the data: that of ranks that had made the job's steps together.
#ifndef WORKER_TRAINER_LOOP_SLIPSTREAM_LOOP_H_
#define WORKER_TRAINER_LOOP_SLIPSTREAM_LOOP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/comm/device_streams.h"
#include "worker/trainer/comm/gradient_mean.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/loop/local_step.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/report/progress_report.h"
#include "worker/trainer/slipstream/slipstream.h"
#include "worker/trainer/telemetry/profiler.h"

namespace paceline {

class SlipstreamLoop : public Training {
 public:
  explicit SlipstreamLoop(const TrainingParts& parts);
  ~SlipstreamLoop() override;

  // Collective: the ranks' rounds begin.
  absl::Status Resume() override;
  absl::StatusOr<TrainEnd> Run() override;
  void Leave() override;

 private:
  using Order = Slipstream::Order;

  // With Slipstream the training begins: position and counts, from the checkpoint if there is one,
  // else of the steps that were made otherwise.
  absl::Status Begin();
  void EnterSaver();
  // At a stop, and at the end, when all ranks have come to it: in modes of gradients one may still
  // be in a step that no round has waited for. The others are in the phase of waiting meanwhile, so
  // that none of them passes for the one that hangs.
  absl::StatusOr<Order> Next();
  // The canonical models differ: writes what this rank has, for people to look at.
  void KeepEvidence() const;
  // Does the step and returns the order after it.
  absl::StatusOr<Order> RunStep(const Order& order);
  LocalStep::Hooks Hooks();
  // Whether a line of the log is written for the step, after which `next` comes.
  bool TakeLine(const Order& next);
  // Of how many ranks the gradients of the step that is done are the mean; it is counted.
  int CountShared();
  // Of the job; undefined: not known yet.
  at::Tensor MeanLoss() const;
  // The job's step and speed in a line are those of finished rounds. Returns rank-steps of all for
  // one of this rank.
  double AddFigures(RankFigures* figures);
  absl::Status Publish();
  // Returns when all ranks know that this one ends with its `own` error in the place of `next`.
  // (On a device the error is of a step that was some steps ago.)
  void TellFault(const absl::Status& own, const Order& next);
  // All that is due while all ranks stand still.
  absl::Status Stop(const Order& order);
  void Save(const Order& order);
  absl::Status Finish(const Order& order);
  std::vector<StateTensor> State() const;
  // Moves the state's position of ranks that had kept together.
  void KeepTogether(int64_t steps);

  const TrainingParts parts_;
  const TrainerConfig& config_;
  TrainingState& state_;
  const int64_t first_step_;
  SlipstreamMemory& memory_;
  const std::unique_ptr<DeviceStreams> streams_;  // Null on a CPU.
  std::optional<Slipstream> slipstream_;
  Profiler profiler_;
  ProgressReport report_;
  LocalStep local_step_;
  GradientMean gradients_;            // Over the plan's gradient group, while steps are updates.
  int64_t number_;                    // Of the latest record.
  int64_t told_steps_;                // Of the job, at the latest line,
  int64_t told_rank_steps_;           // and rank-steps.
  int64_t learnt_step_;               // Whose learning rate was taken last.
  int64_t ready_for_;                 // Generation that was voted for.
  std::optional<StepRecord> newest_;  // That is finished: on a device it lags by some steps.
  double untold_loss_;                // Of that one; NaN: it is told.
  bool after_a_break_ = false;        // Something other than a step went before.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_SLIPSTREAM_LOOP_H_
