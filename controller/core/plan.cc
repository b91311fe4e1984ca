#include "controller/core/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

namespace {

std::string NameOf(const Job& job) { return absl::StrCat("job ", job.request.id.value()); }

std::optional<Refusal> RefuseEnded(const Job& job, const char* what) {
  if (!job.ended_already() && job.state != JobState::kStopping) return std::nullopt;
  return Refusal{Refusal::Kind::kState, "JOB_ENDED",
                 absl::StrCat(NameOf(job), job.ended_already() ? " has ended" : " is ending",
                              ": its ", what, " cannot be changed any more")};
}

// Until the change before it is over.
std::optional<Refusal> RefusePending(const Job& job) {
  if (job.state == JobState::kQueued) return std::nullopt;
  const bool failed = std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& r) {
    return r.report.plan.failed == job.plan.epoch;
  });
  if (failed) return std::nullopt;
  const auto behind = std::count_if(job.ranks.begin(), job.ranks.end(), [&](const RankState& r) {
    return r.report.plan.active != job.plan.epoch;
  });
  if (behind == 0) return std::nullopt;
  return Refusal{Refusal::Kind::kState, "PLAN_PENDING",
                 absl::StrCat("epoch ", job.plan.epoch.value(), " of ", NameOf(job),
                              " has not been taken up yet by ", behind, " of ", job.ranks.size(),
                              " ranks: try again when it has")};
}

}  // namespace

std::optional<Refusal> RefuseLadder(const Job& job) {
  if (std::optional<Refusal> ended = RefuseEnded(job, "ladder"); ended.has_value()) return ended;
  if (job.request.strategy.has_ladder) return RefusePending(job);
  return Refusal{Refusal::Kind::kState, "STRATEGY_FIXED",
                 absl::StrCat(NameOf(job), " trains by strategy ",
                              job.request.strategy.has_mode ? "slipstream" : "ddp",
                              ", which has no ladder: submit it with strategy hsgd or local_sgd to "
                              "change one")};
}

std::optional<Refusal> RefuseMode(const Job& job) {
  if (std::optional<Refusal> ended = RefuseEnded(job, "mode"); ended.has_value()) return ended;
  if (job.request.strategy.has_mode) return RefusePending(job);
  return Refusal{Refusal::Kind::kState, "STRATEGY_FIXED",
                 absl::StrCat(NameOf(job),
                              " trains by a strategy that has no mode: submit it with "
                              "strategy slipstream to change one")};
}

void ChangePlan(Job& job, std::string strategy, Ladder ladder, bool own_pace) {
  job.plan.epoch = PlanEpoch(job.plan.epoch.value() + 1);
  job.plan.strategy = std::move(strategy);
  job.plan.ladder = std::move(ladder);
  job.plan.own_pace = own_pace;
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
