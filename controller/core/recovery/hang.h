// Which rank hangs, told from those that wait for it.
//
// A rank counts as hung when it has made no step for hang_timeout_s while another, which has made
// none for as long either, waits in a collective; a batch that it evaluates counts as a step. A
// rank that waits in a collective itself, or for the others' evaluation, is a victim, unless its
// process is stopped. When all wait, nobody can tell who does not: then the members rendezvous
// again (recovery.h). The first steps of a process may take startup_timeout_s.
//
// With Slipstream nobody may ever wait for it. There it is also the culprit when it has been in one
// phase of its step for hang_timeout_s, and another rank has made a step since its own latest.
//
// The measure is what the nodes have told: the time after a node's latest report proves nothing.
#ifndef CONTROLLER_CORE_RECOVERY_HANG_H_
#define CONTROLLER_CORE_RECOVERY_HANG_H_

#include <optional>
#include <string>

#include "controller/core/job/job.h"

namespace paceline {

// So many first steps of a process may take long.
inline constexpr int64_t kFirstSteps = 2;

struct HangVerdict {
  bool all_wait = false;  // In collectives: there is no culprit.
  Rank rank{-1};          // The culprit.
  // "hangs in forward of step 12, without a step for 20.0 s, while rank 1 waits for it".
  std::string why;
};

// Nothing: no rank hangs.
std::optional<HangVerdict> FindHung(const Job& job, absl::Time steady_now);

// How long a rank with a program of the job's own has been quiet, as its node has told: no output,
// and almost no processor time. Whole seconds, from a minute on whole minutes. Zero: not for
// stall_warning_s, or it makes steps, which tell more.
absl::Duration QuietTime(const Job& job, const TrainerReport& report);

// The rank that has made no step, or was quiet, for the longest time of stall_warning_s and more,
// in words; empty: there is none.
std::string DescribeStall(const Job& job, absl::Time steady_now);

// Which ranks keep a job that starts from training, and how long after it was placed; empty: it
// trains, or was placed less than kStartPatience ago. The time is told in steps of kStartPace.
std::string DescribeStart(const Job& job, absl::Time wall_now);
inline constexpr absl::Duration kStartPatience = absl::Seconds(30);
inline constexpr absl::Duration kStartPace = absl::Seconds(10);

// When the answer of FindHung or DescribeStall may change next by the passing of time; steady,
// infinite: never.
absl::Time NextHangCheck(const Job& job, absl::Time steady_now);

// Takes in what a new report tells about progress.
void NoteProgress(RankState& trainer, const TrainerReport& before, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_HANG_H_
