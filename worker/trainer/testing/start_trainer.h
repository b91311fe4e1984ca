// Starts trainers as children of this process.
#ifndef WORKER_TRAINER_TESTING_START_TRAINER_H_
#define WORKER_TRAINER_TESTING_START_TRAINER_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace paceline {

// `args`: the command line. `server`: the path of a program that forks trainers
// (serve_trainers.h); it starts with its first one, and ends with this process. Empty: executes the
// command line. Failures abort the program.
pid_t StartTrainer(const std::string& server, const std::vector<std::string>& args);

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_START_TRAINER_H_
