// A job with a policy for its stragglers, for tests.
#ifndef CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_TESTING_H_
#define CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"

namespace paceline {

// 8 ranks on as many nodes, with a spare and free places; a step takes 0.1 s when nothing is slow.
class PolicyJob {
 public:
  explicit PolicyJob(StragglerMode mode, const RemedyOptions& options = {})
      : policy(std::in_place, options, mode) {
    facts.generation = Generation(1);
    facts.epoch = PlanEpoch(1);
    facts.running = true;
    facts.has_ladder = true;
    facts.recovers = true;
    facts.ranks = 8;
    facts.steps_left = 100000;
    facts.spares = facts.checked_spares = 1;
    facts.node = [this](const NodeName& name) { return nodes.count(name) ? nodes[name] : there; };
  }

  PolicyJob(const PolicyJob&) = delete;
  PolicyJob& operator=(const PolicyJob&) = delete;

  // So many steps, ten at a time, of so many seconds each.
  void Train(int64_t steps, double step_s) {
    for (int64_t done = 0; done < steps; done += 10) {
      now.steady += absl::Seconds(10 * step_s);
      now.wall += absl::Seconds(10 * step_s);
      Take(policy->OnStepTimes({facts.generation, facts.epoch, facts.step, 10, 10 * step_s}, facts,
                               now));
      facts.step += 10;
      facts.steps_left -= 10;
    }
  }

  void Wait(absl::Duration duration) {
    now.steady += duration;
    now.wall += duration;
    Take(policy->Tick(facts, now));
  }

  VerdictReport Report(VerdictKind kind, int rank, double slowdown = 1.5) const {
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
    report.epoch = facts.epoch;
    return report;
  }

  void Tell(const VerdictReport& report) { Take(policy->OnVerdict(report, facts, now)); }
  void Tell(VerdictKind kind, int rank, double slowdown = 1.5) {
    Tell(Report(kind, rank, slowdown));
  }

  void TellPlan(LadderAdvice advice, Ladder ladder, double step_s, Ladder current,
                double current_s) {
    LadderReport report;
    report.plan.advice = advice;
    report.plan.ladder = std::move(ladder);
    report.plan.step_s = step_s;
    report.plan.current.ladder = std::move(current);
    report.plan.current.step_s = current_s;
    report.plan.reason = "as planned";
    report.generation = facts.generation;
    report.epoch = facts.epoch;
    Take(policy->OnLadderPlan(report, facts, now));
  }

  void TellStrategy(StrategyMove move, std::optional<SlipstreamMode> choice, double step_s,
                    std::optional<SlipstreamMode> current, double current_s) {
    StrategyReport report;
    report.advice.move = move;
    if (choice.has_value()) report.advice.choice = SlipstreamChoice{*choice, {}};
    if (current.has_value()) report.advice.current = SlipstreamChoice{*current, {}};
    report.advice.step_s = step_s;
    report.advice.current_s = current_s;
    report.advice.reason = "as predicted";
    report.generation = facts.generation;
    report.epoch = facts.epoch;
    Take(policy->OnStrategyAdvice(report, facts, now));
  }

  // The order was carried out, by a new generation or plan.
  void Done(double paid_s = 0) {
    const RemedyDecision decision = *policy->Find(order);
    if (decision.kind == RemedyKind::kLadder) {
      facts.epoch = PlanEpoch(facts.epoch.value() + 1);
    } else {
      facts.generation = Generation(facts.generation.value() + 1);
    }
    if (decision.kind == RemedyKind::kHotSwap) --facts.checked_spares;
    if (decision.kind == RemedyKind::kShrink) --facts.ranks;
    const int64_t id = std::exchange(order, 0);
    Take(policy->OnRemedyDone(id, paid_s, facts, now));
  }
  void Failed(const std::string& error) {
    Take(policy->OnRemedyFailed(std::exchange(order, 0), error, facts, now));
  }
  void Apply(int64_t id) { Take(policy->Apply(id, "ann", facts, now)); }

  // Takes the controller down and up again, with what was stored.
  void Restart(StragglerMode mode, const RemedyOptions& options = {}) {
    std::vector<RemedyDecision> kept;
    for (auto [id, decision] : stored) {
      decision.since = absl::InfinitePast();
      kept.push_back(decision);
    }
    policy.emplace(options, mode);
    now.steady = absl::UnixEpoch();  // Another start of the machine.
    Take(policy->Restore(kept, now));
  }

  const RemedyDecision& Last() const { return policy->decisions().back(); }
  std::vector<RemedyDecision> Open() const {
    std::vector<RemedyDecision> open;
    for (const RemedyDecision& d : policy->decisions()) {
      if (IsOpenAdvice(d)) open.push_back(d);
    }
    return open;
  }

  void Take(const RemedyActions& actions) {
    for (const int64_t id : actions.store) {
      if (const RemedyDecision* decision = policy->Find(id)) stored[id] = *decision;
    }
    for (const int64_t id : actions.forget) stored.erase(id);
    if (actions.order.has_value()) {
      order = *actions.order;
      ++orders;
    }
  }

  RemedyFacts facts;
  RemedyNode there{1, 1, ""};  // Of nodes that are not in:
  std::map<NodeName, RemedyNode> nodes;
  Moment now{absl::UnixEpoch() + absl::Hours(5), absl::FromUnixSeconds(1700000000)};
  std::optional<RemedyPolicy> policy;
  int64_t order = 0;  // To be carried out; 0: none.
  int orders = 0;     // All told.
  std::map<int64_t, RemedyDecision> stored;
};

inline const Ladder kLadder = {{2, LadderScope::kSize, 2}, {8, LadderScope::kAll, 0}};

// Rank 5 has made the job's steps half as long again for 200 steps, and is found.
inline void AddStraggler(PolicyJob& job) {
  job.Train(300, 0.1);
  job.Train(200, 0.15);
  job.Tell(VerdictKind::kPersistent, 5);
}

// Random stalls, and a ladder that takes them to two thirds.
inline void AddStalls(PolicyJob& job) {
  job.Train(300, 0.3);
  for (int i = 0; i < 2; ++i) {
    job.TellPlan(LadderAdvice::kChange, kLadder, 0.2, {}, 0.3);
    job.Train(50, 0.3);
  }
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_TESTING_H_
