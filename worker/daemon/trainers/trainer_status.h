// What follows from what a trainer says of itself.
#ifndef WORKER_DAEMON_TRAINERS_TRAINER_STATUS_H_
#define WORKER_DAEMON_TRAINERS_TRAINER_STATUS_H_

#include "proto/trainer.pb.h"

namespace paceline {

// Whether the controller should hear of a change, and how soon.
enum class Tell {
  kNothing,  // With the next report.
  kSoon,     // With other changes that come in the same moment.
  kNow,      // Others wait for it.
};

// How soon the controller should hear that a trainer says `after` and no more `before`. Figures
// alone are worth no report of their own; for its state and its membership others wait.
Tell HowSoon(const v1::TrainerStatus& before, const v1::TrainerStatus& after);

// `last`, which a trainer left behind, with what only `seen` tells, which came by the socket.
v1::TrainerStatus MergeLastWords(const v1::TrainerStatus& seen, v1::TrainerStatus last);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_STATUS_H_
