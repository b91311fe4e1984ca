// What a trainer's status means for the reports.
#ifndef WORKER_DAEMON_TRAINERS_TRAINER_STATUS_H_
#define WORKER_DAEMON_TRAINERS_TRAINER_STATUS_H_

#include "proto/trainer.pb.h"

namespace paceline {

// Whether and how soon the controller should hear of a change.
enum class Tell {
  kNothing,  // It can wait for the next report.
  kSoon,     // Together with other changes of the same moment.
  kNow,      // Others are waiting for it.
};

// How soon the controller should hear that a trainer's status changed from `before` to `after`.
// Figures alone need no report of their own; others wait for its state and membership.
Tell HowSoon(const v1::TrainerStatus& before, const v1::TrainerStatus& after);

// Completes `last`, the status a trainer left behind, with what only `seen`, from the socket, has.
v1::TrainerStatus MergeLastWords(const v1::TrainerStatus& seen, v1::TrainerStatus last);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_STATUS_H_
