#include "controller/core/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

std::optional<Refusal> RefuseLadder(const Job& job) {
  const std::string name = absl::StrCat("job ", job.request.id.value());
  if (job.ended_already() || job.state == JobState::kStopping) {
    return Refusal{Refusal::Kind::kState, "JOB_ENDED",
                   absl::StrCat(name, job.ended_already() ? " has ended" : " is ending",
                                ": its ladder cannot be changed any more")};
  }
  if (!job.request.strategy.has_ladder) {
    return Refusal{Refusal::Kind::kState, "STRATEGY_FIXED",
                   absl::StrCat(name,
                                " trains by strategy ddp, which has no ladder: submit it "
                                "with strategy hsgd or local_sgd to change one")};
  }
  if (job.state == JobState::kQueued) return std::nullopt;
  const bool failed = std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& r) {
    return r.report.plan.failed == job.plan.epoch;
  });
  if (failed) return std::nullopt;
  const auto behind = std::count_if(job.ranks.begin(), job.ranks.end(), [&](const RankState& r) {
    return r.report.plan.active != job.plan.epoch;
  });
  if (behind == 0) return std::nullopt;
  return Refusal{
      Refusal::Kind::kState, "PLAN_PENDING",
      absl::StrCat("epoch ", job.plan.epoch.value(), " of ", name, " has not been taken up yet by ",
                   behind, " of ", job.ranks.size(), " ranks: try again when it has")};
}

void ChangeLadder(Job& job, std::string strategy, Ladder ladder) {
  job.plan.epoch = PlanEpoch(job.plan.epoch.value() + 1);
  job.plan.strategy = std::move(strategy);
  job.plan.ladder = std::move(ladder);
}

ActivePlan FindActivePlan(const Job& job) {
  if (job.ranks.empty()) return {};
  const RankState& oldest = *std::min_element(job.ranks.begin(), job.ranks.end(),
                                              [](const RankState& a, const RankState& b) {
                                                return a.report.plan.active < b.report.plan.active;
                                              });
  return {oldest.report.plan.active, oldest.report.plan.active_since_step};
}

}  // namespace paceline
