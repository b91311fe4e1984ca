// Starts trainers for tests that need hundreds. Loading LibTorch is half the cost of a short job; a
// server loads it once and then forks each trainer.
//
// Its standard input is a Unix socket of packets. Each packet is a trainer's command line, with a
// zero byte after each argument; the answer is the trainer's process id, a pid_t. The trainer does
// not become this program's child but goes to the nearest subreaper, the test.
#ifndef WORKER_TRAINER_TESTING_SERVE_TRAINERS_H_
#define WORKER_TRAINER_TESTING_SERVE_TRAINERS_H_

namespace paceline {

// Runs a trainer in a process of its own. Returns its exit code.
using RunTrainer = int (*)(int argc, char** argv);

// Serves until the socket closes. Returns the exit code.
int ServeTrainers(RunTrainer run);

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_SERVE_TRAINERS_H_
