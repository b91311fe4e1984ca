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
  kDone,  // All steps are done, or a stop was requested.
  kLeft,  // All ranks leave the generation, as agreed.
};

// What a training works on. All of it must outlive the training.
struct TrainingParts {
  const TrainerConfig& config;
  std::shared_ptr<const BuiltPlan> plan;  // The first one.
  const Dataset& train_data;
  const Dataset* eval_data;  // Null: no evaluation.
  Model& model;
  Optimizer& optimizer;
  // The state of a rank that has met this generation's members. It is valid after each moment of
  // the training; Leave adds what is missing.
  TrainingState& state;
  bool begins;     // Nobody has trained before: all copy rank 0.
  StepUndo* undo;  // Null: incomplete steps need no undo.
  Saver* saver;    // Null without a checkpoint directory.
  Groups& groups;
  Control& control;
  Platform& platform;
  StepTimer& timer;
  std::string profile_directory;
  // Whether to leave the generation now, after `steps_done` steps. Called after each step but the
  // last.
  std::function<bool(int64_t steps_done)> leaves_after;
  // Used instead where ranks vote: the generation that this rank is ready to leave for; 0: none.
  std::function<int64_t()> ready_for;
  // Whether new plans are already those of the next generation. Any thread.
  std::function<bool()> has_successor;
  // Whether the generation must be left at once. May be called at any moment.
  std::function<bool()> is_over;
};

Profiler::Options ProfilerOptions(const TrainingParts& parts);

// Thread-compatible. Torch's exceptions pass through.
class Training {
 public:
  virtual ~Training() = default;

  // Call before Run: restores the strategy's state from the checkpoint, if there is one. Errors as
  // for RestoreError.
  virtual absl::Status Resume() = 0;

  // Trains until all steps are done, then exports, evaluates and saves; or until a stop is
  // requested or the generation is left. DataLoss: the data could not be read. Unavailable: other
  // ranks' gradients were not finite. Other codes: this rank's loss was not finite, or writing
  // failed.
  virtual absl::StatusOr<TrainEnd> Run() = 0;

  // Call after Run, even if it threw: completes the state and reports the figures.
  virtual void Leave() = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAINING_H_
