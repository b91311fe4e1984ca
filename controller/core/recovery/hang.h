// Finds the rank that hangs, among those that only wait for it.
//
// A rank counts as hung when it has made no step for hang_timeout_s while another one, without a
// step for as long, waits in a collective. Each batch that it evaluates counts as a step. A rank
// that itself waits in a collective, or for the others' evaluation, is a victim, unless its process
// is stopped. When all wait, the culprit is unknown, and the members rendezvous again (recovery.h).
// The first steps of a process may take startup_timeout_s.
//
// Ranks of a replica of a sharded model wait for each other within their passes, whose phases do
// not tell. But all of them enter the same collectives, which they count: one that has entered more
// than another one waits for it, and the one with the fewest is the culprit. There, each collective
// entered counts as a step. If a trainer or daemon of an earlier release does not count them,
// phases decide as without shards.
//
// With Slipstream perhaps nobody ever waits for a hung rank. There a rank also counts as hung if it
// has been in one phase of its step for hang_timeout_s, and another has since made a step.
//
// Only reported time counts: the time since a node's latest report proves nothing.
#ifndef CONTROLLER_CORE_RECOVERY_HANG_H_
#define CONTROLLER_CORE_RECOVERY_HANG_H_

#include <optional>
#include <string>

#include "controller/core/job/job.h"

namespace paceline {

// How many first steps of a process may take long.
inline constexpr int64_t kFirstSteps = 2;

struct HangVerdict {
  bool all_wait = false;  // In collectives: no culprit is known.
  Rank rank{-1};          // The culprit.
  // "hangs in forward of step 12, without a step for 20.0 s, while rank 1 waits for it".
  std::string why;
};

// Nothing: no rank hangs.
std::optional<HangVerdict> FindHung(const Job& job, absl::Time steady_now);

// How long a rank that runs a program of the user's own has been quiet, as its node reports: no
// output, and almost no processor time. In whole seconds, from a minute on in whole minutes. Zero:
// shorter than stall_warning_s, or it makes steps, which say more.
absl::Duration QuietTime(const Job& job, const TrainerReport& report);

// Describes the rank that has gone without a step, or been quiet, for longest; empty: none has for
// stall_warning_s.
std::string DescribeStall(const Job& job, absl::Time steady_now);

// Which ranks keep a starting job from training, and how long ago it was placed, in steps of
// kStartInterval. Empty: the job trains, or was placed less than kStartPatience ago.
std::string DescribeStart(const Job& job, absl::Time wall_now);
inline constexpr absl::Duration kStartPatience = absl::Seconds(30);
inline constexpr absl::Duration kStartInterval = absl::Seconds(10);

// When FindHung or DescribeStall may next answer differently because time has passed; steady,
// infinite: never.
absl::Time NextHangCheck(const Job& job, absl::Time steady_now);

// Takes in what a new report says about progress.
void NoteProgress(RankState& trainer, const TrainerReport& before, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_HANG_H_
