// The command line of a trainer program.
#ifndef WORKER_TRAINER_TRAINER_MAIN_H_
#define WORKER_TRAINER_TRAINER_MAIN_H_

#include "worker/trainer/comm/platform.h"

namespace paceline {

// Reads the flags and runs the trainer. Returns only when it cannot start.
int TrainerMain(int argc, char** argv, Platform& platform);

}  // namespace paceline

#endif  // WORKER_TRAINER_TRAINER_MAIN_H_
