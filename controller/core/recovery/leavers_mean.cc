#include "controller/core/recovery/leavers_mean.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

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
  const auto old = std::find_if(job.ranks.begin(), job.ranks.end(), [](const RankState& member) {
    return !member.report.membership.can_average_first;
  });
  mean.averages_first = old == job.ranks.end();
  if (mean.averages_first) return mean;
  const std::string who = leaving.size() == 1
                              ? absl::StrCat("rank ", leaving.front().value(), " leaves")
                              : absl::StrCat(leaving.size(), " ranks leave");
  mean.lost = absl::StrCat(LossText(job, who), ": the trainer of rank ", RankOf(job, *old).value(),
                           " on ", old->slot.node.value(), " is of an earlier release");
  return mean;
}

}  // namespace paceline
