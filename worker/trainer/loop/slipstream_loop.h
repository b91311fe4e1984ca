// A rank's training with Slipstream (worker/trainer/slipstream/slipstream.h). Each rank makes steps
// at its own pace; common tasks are done at stops, where all ranks wait with the same model.
//
// Steps are counted twice:
//
//   steps of the job   rank-steps divided by ranks. Schedules, periods and reports use them. A
//                      rank learns of other ranks' steps when a round finishes; until then it
//                      assumes that all are as fast as itself. Records in the step ring have this
//                      number: it never falls, but may repeat (this rank is faster than others) or
//                      leave gaps (it is slower). So records with the same number are from the same
//                      time on all ranks, as comparing ranks requires, however far their own counts
//                      are apart. Log lines and figures count finished rounds only.
//   own steps          of this rank, one by one. Intentional disturbances use them.
//
// A checkpoint has "slipstream/progress" for each rank, int64 [4]: epoch and offset of its next
// batch (core/sampler.h), its own steps, and the job's rank-steps beyond whole steps. With a
// different number of ranks, or after another strategy, all ranks continue at the manifest's data
// position: that of ranks that had made the job's steps together.
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
#include "worker/trainer/generation/quiescence.h"
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
  absl::StatusOr<StepOrder> Next() override;
  LocalStep& step() override { return local_step_; }
  void Updated() override;
  absl::Status EndStep() override;
  JobEvaluation& evaluation() override { return evaluation_; }
  Profiler& profiler() override { return profiler_; }
  bool is_exchanging() const override { return true; }
  void Leave() override;

 private:
  using Order = Slipstream::Order;

  // What Next does first.
  enum class Stage {
    kEnter,      // Gets the first order.
    kStepped,    // A step was made: votes for leaving.
    kOrdered,    // Carries out the order: begins a step, stops, or ends the training.
    kStopped,    // Ends the stop, and gets the next order.
    kEvaluated,  // All is done but to write it.
  };

  // Begins training with Slipstream: takes position and counts from the checkpoint if there is one,
  // otherwise from the steps made by another strategy.
  absl::Status Begin();
  void EnterSaver();
  // The next order. At a stop and at the end, returns when all ranks have come to it: in gradient
  // modes one may still be in a step that no round has waited for. Waiting ranks show the waiting
  // phase, so that none is mistaken for the one that hangs.
  absl::StatusOr<Order> NextOrder();
  // Writes what this rank has, for people to look at, when the canonical models differ.
  void KeepEvidence() const;
  StepOrder BeginStep(const Order& order);
  LocalStep::Hooks MakeHooks();
  // An order to evaluate after `steps_done` steps, if that is due.
  std::optional<StepOrder> EvaluateAfter(int64_t steps_done);
  // Whether to write a log line for the step; `next` follows it.
  bool TakeLine(const Order& next);
  // How many ranks the finished step's mean gradient is over; counts the step.
  int CountShared();
  // The job's mean loss; undefined: unknown so far.
  at::Tensor MeanLoss() const;
  // Sets the job's step and speed, as of finished rounds. Returns all ranks' rank-steps per step of
  // this rank.
  double AddFigures(RankFigures* figures);
  absl::Status Publish();
  // Begins a stop: saves.
  void BeginStop(const Order& order);
  // Ends it, when all that is due at it is done.
  void EndStop();
  void Save(const Order& order);
  absl::Status Finish(const Order& order);
  std::vector<StateTensor> State() const;
  // Advances the state's position of ranks that keep together.
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
  JobEvaluation evaluation_;
  Stage stage_ = Stage::kEnter;
  Order order_;  // The one that is carried out.
  uint64_t step_began_ns_ = 0;
  // This rank's own error: it ends with this as soon as all others know. (On a device, the error is
  // from some steps ago.)
  absl::Status fault_;
  GradientMean gradients_;            // Over the plan's gradient group, if steps are updates.
  int64_t number_;                    // Of the latest record.
  int64_t reported_steps_;            // The job's steps at the latest line.
  int64_t reported_rank_steps_;       // Rank-steps at the latest line.
  double learning_rate_;              // Of the latest step.
  int64_t ready_for_;                 // Generation voted for.
  std::optional<StepRecord> newest_;  // Latest finished record; lags on a device.
  double unreported_loss_;            // Its loss; NaN: reported.
  bool after_a_break_ = false;        // Something other than a step preceded.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_SLIPSTREAM_LOOP_H_
