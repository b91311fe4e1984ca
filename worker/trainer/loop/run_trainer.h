// The life of a trainer: told what to do, it prepares, meets the others, and trains.
#ifndef WORKER_TRAINER_LOOP_RUN_TRAINER_H_
#define WORKER_TRAINER_LOOP_RUN_TRAINER_H_

#include <string>

#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/generation/control.h"

namespace paceline {

// Runs to the end, which it reports by Control::Finish, and ends the process with that exit
// code. Here torch's exceptions stop. The parts of the training are deliberately not taken
// down first: threads of a broken group may be stuck in it, while the end of the process
// closes its connections, so that the other ranks learn of it at once.
// What is made on request and has no other place goes to `directory`, the trainer's own.
[[noreturn]] void RunTrainer(Control& control, StepRingWriter& ring, Platform& platform,
                             const std::string& directory);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_RUN_TRAINER_H_
