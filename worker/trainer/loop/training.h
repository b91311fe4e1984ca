// The training of one rank in one generation, by whatever strategy.
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
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/saving/saver.h"
#include "worker/trainer/telemetry/profiler.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// How training ended.
enum class TrainEnd {
  kDone,  // All steps are, or a stop was requested.
  kLeft,  // All leave the generation, as they have agreed.
};

// What a training works on. All of it outlives the training.
struct TrainingParts {
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
  // Instead, where ranks agree by a vote: the generation that this one is ready to leave for; 0:
  // none.
  std::function<int64_t()> ready_for;
  // Whether the plans that come now are those of the next generation. Any thread.
  std::function<bool()> has_successor;
  // Whether it has to be left at once. Any moment.
  std::function<bool()> is_over;
};

Profiler::Options ProfilerOptions(const TrainingParts& parts);

// Thread-compatible. Torch's exceptions pass through.
class Training {
 public:
  virtual ~Training() = default;

  // Before Run: brings back what the checkpoint, if there is one, has of the strategy. Errors as
  // RestoreError.
  virtual absl::Status Resume() = 0;

  // Trains until all steps are done, then exports, evaluates and saves; or until a stop is
  // requested; or until the generation is left. DataLoss: the data could not be read.
  // Unavailable: the gradients of other ranks were not finite. Any other: this rank's loss was not,
  // or what was to be written could not.
  virtual absl::StatusOr<TrainEnd> Run() = 0;

  // After Run, also if it has thrown: the state is complete then, and figures are told.
  virtual void Leave() = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAINING_H_
