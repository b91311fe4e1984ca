// A trainer's life: it gets its configuration, prepares, meets the others, and trains.
#ifndef WORKER_TRAINER_LOOP_RUN_TRAINER_H_
#define WORKER_TRAINER_LOOP_RUN_TRAINER_H_

#include <string>

#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/generation/control.h"

namespace paceline {

// Runs to the end, reports it by Control::Finish, and exits the process with that code. Stops
// torch's exceptions. Deliberately does not destroy the training first: threads may be stuck in a
// broken group, while exiting closes its connections, so that other ranks notice at once. Files
// made on request that have no other place go to `directory`, the trainer's own.
[[noreturn]] void RunTrainer(Control& control, StepRingWriter& ring, Platform& platform,
                             const std::string& directory);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_RUN_TRAINER_H_
