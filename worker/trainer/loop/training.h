// The training of one rank in one generation, by whatever strategy, as whoever makes the steps
// calls it. The order of calls is that of TrainerRun.
#ifndef WORKER_TRAINER_LOOP_TRAINING_H_
#define WORKER_TRAINER_LOOP_TRAINING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/copy_keeper.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/local_step.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/loop/workload.h"
#include "worker/trainer/saving/sample_ledger.h"
#include "worker/trainer/saving/saver.h"
#include "worker/trainer/telemetry/profiler.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// What is to be done next.
struct StepOrder {
  enum class Kind {
    kStep,      // Make a step.
    kEvaluate,  // Evaluate this rank's share; all ranks do.
    kLeft,      // Nothing: all ranks leave the generation, as agreed.
    kDone,      // Nothing: all steps are done and all is written, or a stop was requested.
  };

  Kind kind = Kind::kDone;
  // Of a step.
  int64_t number = 0;  // From 0.
  double learning_rate = 0;
  // False: only gradients are wanted; the optimizer must not be called. Updated takes them.
  bool updates = true;
  // Whether `number` is the job's and not a count of this rank's steps, so that the caller must not
  // count steps for a schedule: Workload::LearningRate does.
  bool scheduled = false;
  // Of a step or an evaluation: whose data it takes.
  Member member = {};
};

class JobEvaluation;
class StateCopies;

// What a training works on. All of it must outlive the training.
struct TrainingParts {
  const TrainerConfig& config;
  std::shared_ptr<const BuiltPlan> plan;  // The first one.
  Workload& workload;
  // The state of a rank that has met this generation's members. It is valid after each moment of
  // the training; Leave adds what is missing.
  TrainingState& state;
  bool begins;           // Nobody has trained before: all copy rank 0.
  StepUndo* undo;        // Null: incomplete steps need no undo.
  Saver* saver;          // Null without a checkpoint directory.
  SampleLedger* ledger;  // Null: the job keeps none.
  StateCopies* copies;   // Null: the ranks keep none.
  Groups& groups;
  Control& control;
  Platform& platform;
  StepTimer& timer;
  std::string profile_directory;
  // Whether to leave the generation now, after `steps_done` steps. Called after each step but the
  // last.
  std::function<bool(int64_t steps_done)> leaves_after;
  // When that was true: whether all ranks take the mean of their parameters first.
  std::function<bool()> averages_first;
  // Used instead where ranks vote: the generation that this rank is ready to leave for; 0: none.
  std::function<int64_t()> ready_for;
  // Whether new plans are already those of the next generation. Any thread.
  std::function<bool()> has_successor;
  // Whether the generation must be left at once. May be called at any moment.
  std::function<bool()> is_over;
  // The newest orders about copies.
  std::function<CopyOrders()> copy_orders;
};

// All ranks that hold the same part of the model: all, without shards.
Group& LaneOf(const TrainingParts& parts);

Profiler::Options ProfilerOptions(const TrainingParts& parts);

// Thread-compatible. Torch's exceptions pass through; after one, only Leave may be called.
class Training {
 public:
  virtual ~Training() = default;

  // Call first: restores the strategy's state from the checkpoint, if there is one. Errors as for
  // RestoreError.
  virtual absl::Status Resume() = 0;

  // What is next; call it when the order before is carried out. When all steps are done: exports,
  // has them evaluated, and saves. DataLoss: the data could not be read. Unavailable: other ranks'
  // gradients were not finite. Other codes: this rank's loss was not finite, or writing failed.
  virtual absl::StatusOr<StepOrder> Next() = 0;

  // For an order kStep: its passes, then the optimizer.
  virtual LocalStep& step() = 0;
  // The optimizer's step is done: it is never repeated. Call it at once.
  virtual void Updated() = 0;
  // The exchange that follows, and the record. Errors as for Next.
  virtual absl::Status EndStep() = 0;

  // For an order kEvaluate: shows progress, and takes the score of this rank's share.
  virtual JobEvaluation& evaluation() = 0;

  // Of these steps.
  virtual Profiler& profiler() = 0;

  // Whether an exchange goes on beside the steps, which other ranks may leave unfinished when they
  // stop.
  virtual bool is_exchanging() const = 0;

  // Call at the end, even if something threw: completes the state and reports the figures.
  virtual void Leave() = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAINING_H_
