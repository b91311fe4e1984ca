// What a trainer has as long as it lives, and how it comes to it.
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

// In the order of its making.
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
  std::shared_ptr<Groups> groups ABSL_GUARDED_BY(mu);  // To be aborted.
  std::optional<Conductor> conductor;
  Connected before;  // Of the generation before, if it was left with all others.
};

// Makes all up to the saver: afterwards the trainer may be told to train. Torch's exceptions pass
// through.
absl::Status Load(Session& session, Control& control, StepRingWriter& ring, Platform& platform);

// Rank 0 of a generation holds the lock of the job's directory.
absl::Status LockOutput(Session& session, const TrainerConfig& config);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_SESSION_H_
