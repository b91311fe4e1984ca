#include "controller/core/recovery/copy_trouble.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/recovery/copies.h"
#include "controller/core/recovery/restart.h"

namespace paceline {
namespace {

// By the rank that is furthest.
int64_t StepsDone(const Job& job) {
  int64_t done = 0;
  for (const RankState& member : job.ranks) done = std::max(done, member.report.progress.step);
  return done;
}

// Steps that would be lost with a part of the state.
int64_t StepsAtRisk(const Job& job) {
  const bool goes_back = IsProtected(job) && CheckpointThatLosesLess(job) == nullptr;
  const int64_t kept = goes_back ? job.recovery.copies.step : StepOfStart(job).value_or(0);
  return std::max<int64_t>(StepsDone(job) - kept, 0);
}

// What the loss of a part of the state would cost now.
std::string CostOfALoss(const Job& job) {
  if (IsProtected(job) && CheckpointThatLosesLess(job) == nullptr) {
    return absl::StrCat("takes all ranks back to the copies of step ", job.recovery.copies.step);
  }
  const int64_t saved = StepOfStart(job).value_or(0);
  if (saved == 0) return "costs a new start from where it began: there is no checkpoint";
  return absl::StrCat("costs a new start from the checkpoint of step ", saved);
}

// The first rank whose copy has failed, and that has made none since; nothing: there is none, or
// some rank has not done with that step.
std::optional<size_t> FailedRank(const Job& job) {
  if (job.state != JobState::kRunning) return std::nullopt;
  const JobCopies& copies = job.recovery.copies;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const CopyStatus& status = CopiesReported(job, job.ranks[r]);
    const bool has_failed =
        status.failed_step > status.copied_step && status.failed_step <= copies.settled_step;
    if (has_failed && copies.buddies[r] != -1) return r;
  }
  return std::nullopt;
}

std::string DescribeFailure(const Job& job, size_t rank) {
  const CopyStatus& status = CopiesReported(job, job.ranks[rank]);
  const std::string& node = job.ranks[rank].slot.node.value();
  const int buddy = job.recovery.copies.buddies[rank];
  const std::string& kept_on = job.ranks[static_cast<size_t>(buddy)].slot.node.value();
  return absl::StrCat(
      "no copies in memory are complete since step ", status.failed_step, ": that of rank ", rank,
      " on ", node, ", kept by rank ", buddy, " on ", kept_on, ", was not made: ", status.error,
      "; a loss of a part of the state now ", CostOfALoss(job), "; look at the memory of ", node,
      node == kept_on ? "" : absl::StrCat(" and ", kept_on, " and the network between them"),
      "; a connection that has broken is made anew for the next copy");
}

// Whether the newest of the present generation's copies whose outcome is known are complete.
bool AreMadeAgain(const Job& job) {
  const JobCopies& copies = job.recovery.copies;
  return copies.generation == job.generation && copies.step >= copies.settled_step &&
         IsProtected(job);
}

// And at most one interval old.
bool AreInTime(const Job& job) {
  const int64_t age = StepsDone(job) - job.recovery.copies.step;
  return AreMadeAgain(job) && age <= job.request.recovery.copy_every_steps;
}

CopyTrouble TroubleOf(const Job& job) {
  if (LeavesCopiesOut(job)) return CopyTrouble::kLeftOut;
  if (FailedRank(job).has_value()) return CopyTrouble::kFailed;
  const bool is_late = StepsAtRisk(job) >= kLateIntervals * job.request.recovery.copy_every_steps;
  const CopyTrouble before = job.recovery.copies.trouble;
  switch (before) {
    case CopyTrouble::kNone:
      return is_late ? CopyTrouble::kLate : CopyTrouble::kNone;
    case CopyTrouble::kLate:
      return AreInTime(job) ? CopyTrouble::kNone : before;
    case CopyTrouble::kFailed:
    case CopyTrouble::kLeftOut:
      return AreMadeAgain(job) && !is_late ? CopyTrouble::kNone : before;
  }
  return before;
}

}  // namespace

JobChange NoteCopyTrouble(Job& job) {
  if (!HasCopies(job) || job.state != JobState::kRunning) return JobChange::kNone;
  // What is stored of the ranks' steps is old.
  const bool all_are_heard =
      std::all_of(job.ranks.begin(), job.ranks.end(),
                  [](const RankState& member) { return member.heard != absl::InfinitePast(); });
  if (!all_are_heard) return JobChange::kNone;
  const CopyTrouble now = TroubleOf(job);
  return std::exchange(job.recovery.copies.trouble, now) == now ? JobChange::kNone
                                                                : JobChange::kState;
}

std::string DescribeCopyTrouble(const Job& job) {
  const CopyTrouble trouble = job.recovery.copies.trouble;
  if (!HasCopies(job) || trouble == CopyTrouble::kNone) return "";
  const std::string left_out = trouble == CopyTrouble::kLeftOut ? WhyNoCopies(job) : "";
  if (!left_out.empty()) {
    return absl::StrCat("trains without copies in host memory: ", left_out,
                        "; a loss of a part of the state now ", CostOfALoss(job));
  }
  const std::optional<size_t> failed =
      trouble == CopyTrouble::kFailed ? FailedRank(job) : std::nullopt;
  if (failed.has_value()) return DescribeFailure(job, *failed);
  return absl::StrCat("copies in host memory are ",
                      trouble == CopyTrouble::kLate ? "late" : "not in time again yet",
                      ", and a loss may cost ", StepsAtRisk(job), " steps; ",
                      IsProtected(job) ? "they have " : "", DescribeProtection(job));
}

}  // namespace paceline
