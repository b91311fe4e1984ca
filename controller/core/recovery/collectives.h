// Which collectives the ranks of a watched command wait in, and which ranks have not entered them,
// found by comparing what torch's flight recorder knows in each process.
//
// The ranks are asked (JobCollectives::wanted, which their plans carry) when one has made no
// progress for stall_warning_s, again each time that this has lasted as long once more, and a last
// time before they are ended because one has failed.
#ifndef CONTROLLER_CORE_RECOVERY_COLLECTIVES_H_
#define CONTROLLER_CORE_RECOVERY_COLLECTIVES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/job.h"

namespace paceline {

// What a rank has reported of its collectives.
struct RankReport {
  Rank rank;
  RankCollectives reported;
  bool has_failed = false;  // In a collective, its newest, even if that counts as finished.
};

// One sentence for each process group in which a rank waits, first the group that explains others;
// the last sentence names the ranks of which nothing is known. Empty: no rank is known to wait in a
// collective. `ranks`: ascending.
std::vector<std::string> FindCollectives(const std::vector<RankReport>& ranks);

// For a training job: asks the ranks, and takes in their answers. `stalled`: a rank makes no
// progress. Returns kState if the ranks are to be asked, or no longer.
JobChange TellCollectives(Job& job, bool stalled, Moment now);

// When TellCollectives next has something to do because time has passed; steady, infinite: never.
absl::Time NextCollectives(const Job& job);

// Ask: a rank has failed, and the others, which are about to be ended, are asked. Take: they have
// ended; takes in their answers, and adds them to the job's reason if a collective failed.
void AskLastCollectives(Job& job, Moment now);
void TakeLastCollectives(Job& job, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_COLLECTIVES_H_
