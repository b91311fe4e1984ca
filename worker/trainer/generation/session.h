// What a trainer owns for its whole life, and how it is set up.
#ifndef WORKER_TRAINER_GENERATION_SESSION_H_
#define WORKER_TRAINER_GENERATION_SESSION_H_

#include <c10/core/Device.h>

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
#include "worker/trainer/copies/state_copies.h"
#include "worker/trainer/generation/conductor.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/step_undo.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/loop/workload.h"
#include "worker/trainer/saving/sample_ledger.h"
#include "worker/trainer/saving/saver.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// In the order in which it is made.
struct Session {
  std::optional<TrainerConfig> config;
  std::optional<StoreServer> store;
  at::Device device = at::kCPU;
  Workload* workload = nullptr;  // Not owned.
  std::optional<OutputLock> output;
  TrainingState state;
  std::unique_ptr<StepTimer> timer;
  std::optional<StepUndo> undo;
  std::optional<Saver> saver;
  std::optional<SampleLedger> ledger;  // If the job keeps one.
  absl::Mutex mu;
  std::shared_ptr<Groups> groups ABSL_GUARDED_BY(mu);    // For aborting.
  std::shared_ptr<Group> hand_over ABSL_GUARDED_BY(mu);  // The same, during a hand-over.
  std::optional<Conductor> conductor;
  std::optional<StateCopies> copies;  // If the job has them. Its threads use the conductor.
  Connected before;                   // Of the previous generation, if all left it together.
};

// Waits for the configuration, and makes everything that does not depend on the workload. Torch's
// exceptions pass through; so below.
absl::Status Open(Session& session, Control& control, Platform& platform);
// Makes the rest up to the saver, so that the trainer can be told to train. `workload` must outlive
// the session. Requires: Open.
absl::Status Load(Session& session, Workload& workload, Control& control, StepRingWriter& ring,
                  Platform& platform);

// Takes the lock of the job's directory if this is rank 0 of the generation.
absl::Status LockOutput(Session& session, const TrainerConfig& config);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_SESSION_H_
