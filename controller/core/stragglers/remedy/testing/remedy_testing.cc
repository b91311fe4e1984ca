#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

PolicyJob::PolicyJob(StragglerMode mode, const RemedyOptions& options)
    : policy(std::in_place, options, mode) {
  facts.generation = Generation(1);
  facts.plan_version = PlanVersion(1);
  facts.running = true;
  facts.has_ladder = true;
  facts.recovers = true;
  facts.ranks = 8;
  facts.steps_left = 100000;
  facts.spares = facts.checked_spares = 1;
  facts.node = [this](const NodeName& name) { return nodes.count(name) ? nodes[name] : there; };
}

void PolicyJob::Train(int64_t steps, double step_s) {
  for (int64_t done = 0; done < steps; done += 10) {
    now.steady += absl::Seconds(10 * step_s);
    now.wall += absl::Seconds(10 * step_s);
    Take(policy->OnStepTimes({facts.generation, facts.plan_version, facts.step, 10, 10 * step_s},
                             facts, now));
    facts.step += 10;
    facts.steps_left -= 10;
  }
}

void PolicyJob::Wait(absl::Duration duration) {
  now.steady += duration;
  now.wall += duration;
  Take(policy->Tick(facts, now));
}

VerdictReport PolicyJob::Report(VerdictKind kind, int rank, double slowdown) const {
  VerdictReport report;
  report.verdict.kind = kind;
  report.verdict.rank = rank;
  report.verdict.node = rank;
  report.verdict.peer_group = 0;
  report.verdict.step = facts.step;
  report.verdict.since_step = std::max<int64_t>(0, facts.step - 150);
  report.verdict.slowdown = slowdown;
  report.verdict.lost_share = 1 - 1 / slowdown;
  report.verdict.episodes = 1;
  report.node = NodeName(absl::StrCat("n", std::max(rank, 0)));
  report.generation = facts.generation;
  report.plan_version = facts.plan_version;
  return report;
}

void PolicyJob::Tell(VerdictKind kind, int rank, double slowdown) {
  Tell(Report(kind, rank, slowdown));
}

void PolicyJob::TellPlan(LadderAdvice advice, Ladder ladder, double step_s, Ladder current,
                         double current_s) {
  LadderReport report;
  report.plan.advice = advice;
  report.plan.ladder = std::move(ladder);
  report.plan.step_s = step_s;
  report.plan.current.ladder = std::move(current);
  report.plan.current.step_s = current_s;
  report.plan.reason = "as planned";
  report.generation = facts.generation;
  report.plan_version = facts.plan_version;
  Take(policy->OnLadderPlan(report, facts, now));
}

void PolicyJob::TellStrategy(StrategyMove move, std::optional<SlipstreamMode> choice, double step_s,
                             std::optional<SlipstreamMode> current, double current_s) {
  StrategyReport report;
  report.advice.move = move;
  if (choice.has_value()) report.advice.choice = SlipstreamChoice{*choice, {}};
  if (current.has_value()) report.advice.current = SlipstreamChoice{*current, {}};
  report.advice.step_s = step_s;
  report.advice.current_s = current_s;
  report.advice.reason = "as predicted";
  report.generation = facts.generation;
  report.plan_version = facts.plan_version;
  Take(policy->OnStrategyAdvice(report, facts, now));
}

void PolicyJob::Done(double paid_s) {
  const RemedyDecision decision = *policy->Find(order);
  if (decision.kind == RemedyKind::kLadder) {
    facts.plan_version = PlanVersion(facts.plan_version.value() + 1);
  } else {
    facts.generation = Generation(facts.generation.value() + 1);
  }
  if (decision.kind == RemedyKind::kHotSwap) --facts.checked_spares;
  if (decision.kind == RemedyKind::kShrink) --facts.ranks;
  const int64_t id = std::exchange(order, 0);
  Take(policy->OnRemedyDone(id, paid_s, facts, now));
}

void PolicyJob::Failed(const std::string& error) {
  Take(policy->OnRemedyFailed(std::exchange(order, 0), error, facts, now));
}

void PolicyJob::Restart(StragglerMode mode, const RemedyOptions& options) {
  std::vector<RemedyDecision> kept;
  for (auto [id, decision] : stored) {
    decision.since = absl::InfinitePast();
    kept.push_back(decision);
  }
  policy.emplace(options, mode);
  now.steady = absl::UnixEpoch();  // Another start of the machine.
  Take(policy->Restore(kept, now));
}

std::vector<RemedyDecision> PolicyJob::Open() const {
  std::vector<RemedyDecision> open;
  for (const RemedyDecision& d : policy->decisions()) {
    if (IsOpenAdvice(d)) open.push_back(d);
  }
  return open;
}

void PolicyJob::Take(const RemedyActions& actions) {
  for (const int64_t id : actions.store) {
    if (const RemedyDecision* decision = policy->Find(id)) stored[id] = *decision;
  }
  for (const int64_t id : actions.forget) stored.erase(id);
  if (actions.order.has_value()) {
    order = *actions.order;
    ++orders;
  }
}

void AddStraggler(PolicyJob& job) {
  job.Train(300, 0.1);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
}

void AddStalls(PolicyJob& job) {
  job.Train(300, 0.3);
  for (int i = 0; i < 2; ++i) {
    job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
    job.Train(50, 0.3);
  }
}

}  // namespace paceline
