#include "controller/core/recovery/leavers_mean.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace paceline {
namespace {

std::string LossText(const Job& job, const std::string& who) {
  const int64_t steps = job.plan.ladder.empty() ? 0 : job.plan.ladder.back().period;
  return absl::StrCat(who, " with up to ", steps,
                      " steps since the latest mean of all ranks, which are lost");
}

// The present ranks that leave, and whose parameters no other trainer is handed.
std::vector<Rank> LeavingRanks(const Job& job, const NextGeneration& next) {
  std::vector<Rank> ranks;
  for (const RankState& leaver : next.leaving) {
    const Rank rank = RankOf(job, leaver);
    if (rank != Rank(-1) && !leaver.hands_over) ranks.push_back(rank);
  }
  return ranks;
}

// Whether the leaver of the planned change under way has gone through it, and the mean before it.
bool HasLeft(const RankState& leaver) {
  return leaver.report.membership.waiting && leaver.report.membership.error.empty();
}

// What is lost when `next` calls the planned change under way off, if there is one: those that were
// to leave, and do not come back, had no mean yet.
std::string LostByCallingOff(const Job& job, const NextGeneration& next) {
  const MembershipChange* const change = ChangeUnderWay(job);
  if (change == nullptr || !change->averages_first) return "";
  const auto ends =
      std::count_if(job.leaving.begin(), job.leaving.end(), [&](const RankState& leaver) {
        return !leaver.stop.has_value() && !leaver.hands_over && !HasLeft(leaver) &&
               std::none_of(next.members.begin(), next.members.end(), [&](const RankState& member) {
                 return member.report.id == leaver.report.id;
               });
      });
  if (ends == 0) return "";
  return LossText(job, ends == 1 ? "a rank that was to leave ends"
                                 : absl::StrCat(ends, " ranks that were to leave end"));
}

// The latest planned change, if it was to begin with a mean and was called off although no rank was
// lost; null otherwise. Perhaps the mean takes longer than a collective may, and would every time.
const MembershipChange* ChangeWhoseMeanFailed(const Job& job) {
  const auto& history = job.recovery.history;
  const auto latest = std::find_if(history.rbegin(), history.rend(),
                                   [](const MembershipChange& one) { return one.planned; });
  if (latest == history.rend() || !latest->averages_first ||
      latest->ended != absl::InfinitePast() || job.recovery.troubled != latest->generation) {
    return nullptr;
  }
  return &*latest;
}

// Why no mean comes first although ranks leave; empty: one does.
std::string WhyNoMean(const Job& job) {
  for (const RankState& member : job.ranks) {
    if (member.report.membership.can_average_first) continue;
    return absl::StrCat("the trainer of rank ", RankOf(job, member).value(), " on ",
                        member.slot.node.value(), " is of an earlier release");
  }
  const MembershipChange* const failed = ChangeWhoseMeanFailed(job);
  if (failed == nullptr) return "";
  return absl::StrCat("generation ", failed->generation.value(),
                      ", before which they were to take one, did not come about");
}

}  // namespace

LeaversMean DecideLeaversMean(const Job& job, const NextGeneration& next) {
  LeaversMean mean;
  if (!job.request.strategy.has_ladder) return mean;
  if (!next.planned) {
    mean.lost = LostByCallingOff(job, next);
    return mean;
  }
  const std::vector<Rank> leaving = LeavingRanks(job, next);
  if (leaving.empty()) return mean;
  const std::string why_not = WhyNoMean(job);
  mean.averages_first = why_not.empty();
  if (mean.averages_first) return mean;
  const std::string who = leaving.size() == 1
                              ? absl::StrCat("rank ", leaving.front().value(), " leaves")
                              : absl::StrCat(leaving.size(), " ranks leave");
  mean.lost = absl::StrCat(LossText(job, who), ": ", why_not);
  return mean;
}

}  // namespace paceline
