// The command line of a trainer program.
#ifndef WORKER_TRAINER_TRAINER_MAIN_H_
#define WORKER_TRAINER_TRAINER_MAIN_H_

#include <functional>
#include <string>

#include "worker/trainer/comm/platform.h"

namespace paceline {

class Control;
class StepRingWriter;

// Trains with what TrainerMain has set up, in `directory`, the trainer's own. Returns the exit
// code; then the process exits, and nothing is destroyed.
using Train = std::function<int(Control& control, StepRingWriter& ring, Platform& platform,
                                const std::string& directory)>;

// Reads the flags and runs the trainer: what a job file describes, or `train`. Returns only when it
// cannot start.
int TrainerMain(int argc, char** argv, Platform& platform);
int TrainerMain(int argc, char** argv, Platform& platform, const Train& train);

}  // namespace paceline

#endif  // WORKER_TRAINER_TRAINER_MAIN_H_
