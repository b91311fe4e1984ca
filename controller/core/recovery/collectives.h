// Which collectives the ranks of a watched command stand in, and which ranks have not entered them:
// what torch's flight recorder knows in each process, put side by side.
//
// The ranks are asked (JobCollectives::wanted, which their plans carry) when one has stood still
// for stall_warning_s, again as long as that lasts, and for the last time before they are ended
// because one has failed.
#ifndef CONTROLLER_CORE_RECOVERY_COLLECTIVES_H_
#define CONTROLLER_CORE_RECOVERY_COLLECTIVES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/job.h"

namespace paceline {

// A rank, as far as its collectives are concerned.
struct RankTold {
  Rank rank;
  RankCollectives told;
  bool has_failed = false;  // In a collective: the newest one, though that may count as finished.
};

// One sentence for each process group in which a rank waits, the one first that explains others;
// the last sentence says which ranks nothing is known of. Empty: no rank waits in a collective, as
// far as is known. `ranks`: ascending.
std::vector<std::string> FindCollectives(const std::vector<RankTold>& ranks);

// Of a job that trains: asks, and takes in what was answered. `stalled`: a rank stands still.
// kState: the ranks are to be asked, or not any more.
JobChange TellCollectives(Job& job, bool stalled, Moment now);

// When it has something to do next by the passing of time; steady, infinite: never.
absl::Time NextCollectives(const Job& job);

// A rank has failed, and the others are about to be ended: asks them. And, when they have ended:
// takes in what was answered; of a failed collective the job's reason tells it, too.
void AskLastCollectives(Job& job, Moment now);
void TakeLastCollectives(Job& job, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_COLLECTIVES_H_
