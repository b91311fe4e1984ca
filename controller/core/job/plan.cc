#include "controller/core/job/plan.h"

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

// PLAN_PENDING until the change before is over.
std::optional<Refusal> RefusePending(const Job& job) {
  if (job.state == JobState::kQueued) return std::nullopt;
  const bool failed = std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& r) {
    return r.report.plan.failed == job.plan.version;
  });
  if (failed) return std::nullopt;
  const auto behind = std::count_if(job.ranks.begin(), job.ranks.end(), [&](const RankState& r) {
    return r.report.plan.active != job.plan.version;
  });
  if (behind == 0) return std::nullopt;
  return Refusal{Refusal::Kind::kState, "PLAN_PENDING",
                 absl::StrCat("plan version ", job.plan.version.value(), " of ", NameOf(job),
                              " has not been taken up yet by ", behind, " of ", job.ranks.size(),
                              " ranks: try again when it has")};
}

const char* StrategyName(const JobStrategy& strategy) {
  if (strategy.is_auto) return "auto";
  return strategy.slipstream.has_value() ? "slipstream" : "ddp";
}

void SetPlan(Job& job, JobPlan plan) {
  plan.version = PlanVersion(job.plan.version.value() + 1);
  job.plan = std::move(plan);
  PlaceByPlan(job);
}

}  // namespace

std::optional<Refusal> RefuseLadder(const Job& job) {
  if (std::optional<Refusal> ended = RefuseEnded(job, "ladder"); ended.has_value()) return ended;
  if (job.request.strategy.has_ladder) return RefusePending(job);
  return Refusal{
      Refusal::Kind::kState, "STRATEGY_FIXED",
      absl::StrCat(NameOf(job), " trains by strategy ", StrategyName(job.request.strategy),
                   ", which has no ladder: submit it with strategy hsgd or local_sgd to "
                   "change one")};
}

std::optional<Refusal> RefuseMode(const Job& job) {
  if (std::optional<Refusal> ended = RefuseEnded(job, "mode"); ended.has_value()) return ended;
  if (job.request.strategy.slipstream.has_value()) return RefusePending(job);
  if (job.request.strategy.is_auto) {
    return Refusal{Refusal::Kind::kState, "STRATEGY_FIXED",
                   absl::StrCat(NameOf(job),
                                " trains by strategy auto, of which the controller chooses the "
                                "mode: submit it with strategy slipstream to change it")};
  }
  return Refusal{Refusal::Kind::kState, "STRATEGY_FIXED",
                 absl::StrCat(NameOf(job),
                              " trains by a strategy that has no mode: submit it with "
                              "strategy slipstream to change one")};
}

bool IsPlanPending(const Job& job) {
  return job.next_plan.has_value() || RefusePending(job).has_value();
}

void ChangePlan(Job& job, JobPlan plan) {
  // Taking back a plan that was not taken up yet only drops it.
  const bool takes_back = std::exchange(job.next_plan, std::nullopt).has_value() &&
                          job.plan.slipstream == plan.slipstream;
  if (takes_back) return;
  const bool in_place =
      job.ranks.empty() || plan.slipstream.has_value() == job.plan.slipstream.has_value();
  if (in_place) {
    SetPlan(job, std::move(plan));
  } else {
    job.next_plan = std::move(plan);
  }
}

void TakePlanOver(Job& job, bool planned) {
  const std::optional<JobPlan> next = std::exchange(job.next_plan, std::nullopt);
  const std::optional<JobPlan> former = std::exchange(job.former_plan, std::nullopt);
  if (planned && next.has_value()) {
    job.former_plan = job.plan;
    SetPlan(job, *next);
  } else {
    SetPlan(job, former.value_or(job.plan));
  }
}

void PlaceByPlan(Job& job) { job.request.placement.needs.Add(job.plan.needs); }

ActivePlan FindActivePlan(const Job& job) {
  if (job.ranks.empty()) return {};
  const RankState& oldest = *std::min_element(job.ranks.begin(), job.ranks.end(),
                                              [](const RankState& a, const RankState& b) {
                                                return a.report.plan.active < b.report.plan.active;
                                              });
  return {oldest.report.plan.active, oldest.report.plan.active_since_step};
}

}  // namespace paceline
