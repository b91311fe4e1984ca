// What a trainer owns for its whole life, and how it is set up.
#ifndef WORKER_TRAINER_GENERATION_SESSION_H_
#define WORKER_TRAINER_GENERATION_SESSION_H_

#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/checkpoint/output_directory.h"
#include "worker/trainer/comm/connecting.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/generation/conductor.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/saving/saver.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// In the order in which it is made.
struct Session {
  std::optional<TrainerConfig> config;
  std::optional<StoreServer> store;
  std::unique_ptr<Dataset> train_data;
  std::unique_ptr<Dataset> eval_data;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<OutputLock> output;
  TrainingState state;
  std::unique_ptr<StepTimer> timer;
  std::optional<StepUndo> undo;
  std::optional<Saver> saver;
  absl::Mutex mu;
  std::shared_ptr<Groups> groups ABSL_GUARDED_BY(mu);  // For aborting.
  std::optional<Conductor> conductor;
  Connected before;  // Of the previous generation, if all left it together.
};

// Makes everything up to the saver, so that the trainer can be told to train. Torch's exceptions
// pass through.
absl::Status Load(Session& session, Control& control, StepRingWriter& ring, Platform& platform);

// Takes the lock of the job's directory if this is rank 0 of the generation.
absl::Status LockOutput(Session& session, const TrainerConfig& config);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_SESSION_H_
