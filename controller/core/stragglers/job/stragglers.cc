#include "controller/core/stragglers/job/stragglers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job/plan.h"
#include "controller/core/node/hold.h"
#include "controller/core/stragglers/job/straggler_facts.h"

namespace paceline {

void StragglerActions::Merge(StragglerActions later) {
  for (const Key& key : later.forget) store.erase(key);
  store.merge(later.store);
  forget.merge(later.forget);
  events.insert(events.end(), later.events.begin(), later.events.end());
}

void CarryOut(Cluster& cluster, const std::function<StragglerActions(const Actions&)>& follow,
              Moment now, Actions& actions, StragglerActions& decided) {
  while (!decided.events.empty()) {
    Actions stepped;
    for (const Event& event : std::exchange(decided.events, {})) {
      stepped.Merge(cluster.Step(event, now));
    }
    decided.Merge(follow(stepped));
    actions.Merge(std::move(stepped));
  }
}

StragglerActions Stragglers::Restore(std::map<JobId, std::vector<RemedyDecision>> decisions,
                                     const Cluster& cluster, Moment now) {
  StragglerActions actions;
  for (auto& [id, stored] : decisions) {
    const Job* job = cluster.FindJob(id);
    if (job == nullptr) {
      for (const RemedyDecision& decision : stored) actions.forget.emplace(id, decision.id);
      continue;
    }
    JobStragglers& stragglers = Get(*job);
    Take(*job, stragglers.Restore(std::move(stored), now), actions);
    // Nobody will report on an ended job any more.
    if (!job->ended_already()) continue;
    Take(*job, stragglers.Follow(ViewOf(cluster, *job), now), actions);
  }
  return actions;
}

StragglerActions Stragglers::Follow(const Cluster& cluster, const Actions& stepped, Moment now) {
  ForgetViews(stepped);
  StragglerActions actions;
  for (const JobId& id : stepped.delete_jobs) {
    const auto known = jobs_.find(id);
    if (known == jobs_.end()) continue;
    for (const RemedyDecision& decision : known->second->policy().decisions()) {
      actions.forget.emplace(id, decision.id);
    }
    in_flight_.erase(id);
    deadlines_.Set(id, absl::InfiniteFuture());
    jobs_.erase(known);
  }
  for (const JobId& id : stepped.show_jobs) {
    const Job* job = cluster.FindJob(id);
    if (job == nullptr || (job->state != JobState::kRunning && !jobs_.contains(id))) continue;
    Take(*job, Get(*job).Follow(ViewOf(cluster, *job), now), actions);
  }
  // An order may wait for a change of a node's state.
  for (const JobId& id : std::set<JobId>(in_flight_)) {
    if (stepped.show_jobs.count(id) > 0) continue;
    const Job& job = cluster.jobs().at(id);
    Take(job, Get(job).Follow(ViewOf(cluster, job), now), actions);
  }
  return actions;
}

StragglerActions Stragglers::TakeSteps(const Cluster& cluster, const NodeName& node,
                                       const TrainerId& trainer, absl::Span<const StepTimes> steps,
                                       Moment now) {
  StragglerActions actions;
  const auto known = jobs_.find(trainer.job);
  const Job* job = cluster.FindJob(trainer.job);
  if (known == jobs_.end() || job == nullptr) return actions;
  Take(*job, known->second->TakeSteps(node, trainer, steps, ViewOf(cluster, *job), now), actions);
  return actions;
}

std::optional<Refusal> Stragglers::RefuseApply(const Cluster& cluster, const JobId& id,
                                               int64_t advice) {
  const Job& job = cluster.jobs().at(id);
  return Get(job).RefuseApply(advice, ViewOf(cluster, job));
}

StragglerActions Stragglers::Apply(const Cluster& cluster, const JobId& id, int64_t advice,
                                   const std::string& by, Moment now) {
  StragglerActions actions;
  const Job& job = cluster.jobs().at(id);
  Take(job, Get(job).Apply(advice, by, ViewOf(cluster, job), now), actions);
  return actions;
}

StragglerActions Stragglers::Tick(const Cluster& cluster, Moment now) {
  StragglerActions actions;
  for (const JobId& id : deadlines_.TakeDue(now.steady)) {
    const Job& job = cluster.jobs().at(id);
    Take(job, Get(job).Tick(ViewOf(cluster, job), now), actions);
  }
  return actions;
}

absl::Time Stragglers::NextDeadline() const { return deadlines_.Next(); }

const JobStragglers* Stragglers::Find(const JobId& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.get();
}

JobStragglers& Stragglers::Get(const Job& job) {
  std::unique_ptr<JobStragglers>& stragglers = jobs_[job.request.id];
  if (stragglers == nullptr) {
    stragglers = std::make_unique<JobStragglers>(options_, job.request.stragglers);
  }
  return *stragglers;
}

const JobView& Stragglers::ViewOf(const Cluster& cluster, const Job& job) {
  const auto known = views_.find(job.request.id);
  if (known != views_.end()) return known->second;
  JobView view = ViewJob(cluster, job);
  view.facts.node = [this, of_cluster = view.facts.node](const NodeName& name) {
    RemedyNode node = of_cluster(name);
    node.replaced_before = CountReplacements(name);
    return node;
  };
  return views_.emplace(job.request.id, std::move(view)).first->second;
}

void Stragglers::ForgetViews(const Actions& stepped) {
  // A view shows its job, and what the cluster knows of nodes and the automation.
  const bool only_jobs = stepped.show_nodes.empty() && stepped.store_nodes.empty() &&
                         stepped.delete_jobs.empty() && !stepped.store_automation;
  if (!only_jobs) return views_.clear();
  for (const JobId& id : stepped.show_jobs) views_.erase(id);
}

int Stragglers::CountReplacements(const NodeName& node) const {
  const auto was_done = [&](const RemedyDecision& d) {
    return d.node == node && d.undoes == 0 &&
           (IsChecked(d) || d.state == DecisionState::kHelped ||
            d.state == DecisionState::kUnchecked);
  };
  absl::Time drained = absl::InfinitePast();
  std::vector<absl::Time> replaced;
  for (const auto& [id, job] : jobs_) {
    for (const RemedyDecision& decision : job->policy().decisions()) {
      if (!was_done(decision)) continue;
      if (decision.kind == RemedyKind::kDrain) {
        drained = std::max(drained, decision.made);
      } else if (decision.kind == RemedyKind::kHotSwap || decision.kind == RemedyKind::kShrink) {
        replaced.push_back(decision.made);
      }
    }
  }
  return static_cast<int>(std::count_if(replaced.begin(), replaced.end(),
                                        [&](absl::Time made) { return made > drained; }));
}

void Stragglers::Take(const Job& job, const RemedyActions& taken, StragglerActions& actions) {
  const JobId& id = job.request.id;
  const JobStragglers& stragglers = *jobs_.at(id);
  const RemedyPolicy& policy = stragglers.policy();
  Index(job, stragglers);
  for (const int64_t decision : taken.store) actions.store.emplace(id, decision);
  for (const int64_t decision : taken.forget) {
    actions.store.erase({id, decision});
    actions.forget.emplace(id, decision);
  }
  for (const int64_t decision : taken.store) {
    const RemedyDecision* failed = policy.Find(decision);
    if (failed == nullptr || failed->state != DecisionState::kFailed) continue;
    for (Event& event : EventsAfterFailure(job, *failed))
      actions.events.push_back(std::move(event));
  }
  if (!taken.order.has_value()) return;
  for (Event& event : EventsOf(job, policy, *policy.Find(*taken.order))) {
    actions.events.push_back(std::move(event));
  }
}

void Stragglers::Index(const Job& job, const JobStragglers& stragglers) {
  const JobId& id = job.request.id;
  const bool is_live = !job.ended_already();
  const auto& decisions = stragglers.policy().decisions();
  if (is_live && std::any_of(decisions.begin(), decisions.end(), IsInFlight)) {
    in_flight_.insert(id);
  } else {
    in_flight_.erase(id);
  }
  deadlines_.Set(id, is_live ? stragglers.NextDeadline() : absl::InfiniteFuture());
}

std::vector<Event> Stragglers::EventsAfterFailure(const Job& job,
                                                  const RemedyDecision& failed) const {
  if (failed.kind == RemedyKind::kLadder) {
    const bool is_left = job.plan.ladder == failed.ladder && !RefuseLadder(job).has_value();
    if (!is_left) return {};
    return {ChangeOfPlan(job, failed.former)};
  }
  if (failed.kind == RemedyKind::kStrategy) {
    const bool is_left = job.next_plan.has_value() || job.plan.slipstream == failed.strategy;
    if (!is_left || job.ended_already()) return {};
    return {ChangeOfPlan(job, failed.former_strategy)};
  }
  if (failed.undoes > 0) return {};
  if (failed.kind == RemedyKind::kHotSwap && job.recovery.vacate.count(failed.node) > 0) {
    return {ReplacementWithdrawn{job.request.id, failed.node}};
  }
  if (failed.kind == RemedyKind::kDrain && failed.automatic) {
    return {NodeResumeRequested{failed.node, std::string(kAutomationOwner)}};
  }
  return {};
}

Event Stragglers::ChangeOfPlan(const Job& job, const Ladder& ladder) const {
  JobPlan plan;
  plan.strategy = with_ladder_(job.plan.strategy, ladder);
  plan.ladder = ladder;
  return PlanChanged{job.request.id, std::move(plan)};
}

Event Stragglers::ChangeOfPlan(const Job& job,
                               const std::optional<SlipstreamChoice>& strategy) const {
  JobPlan plan;
  plan.strategy = strategy_of_(job.request.strategy_spec, strategy);
  plan.slipstream = strategy;
  return PlanChanged{job.request.id, std::move(plan)};
}

std::vector<Event> Stragglers::EventsOf(const Job& job, const RemedyPolicy& policy,
                                        const RemedyDecision& decision) const {
  const JobId& id = job.request.id;
  const std::string why =
      absl::StrCat("decision ", decision.id, " of job ", id.value(), ": ", decision.reason);
  switch (decision.kind) {
    case RemedyKind::kLadder:
      return {ChangeOfPlan(job, decision.ladder)};
    case RemedyKind::kStrategy:
      return {ChangeOfPlan(job, decision.strategy)};
    case RemedyKind::kHotSwap:
      return {ReplacementRequested{id, decision.node, why}};
    case RemedyKind::kShrink:
      return {RanksGivenUp{id, decision.node, why}};
    case RemedyKind::kDrain:
      break;
    case RemedyKind::kAskPerson:
    case RemedyKind::kOuterStep:
      return {};
  }
  // Removes the automation's drain, but never a person's hold with it.
  const RemedyDecision* undone = policy.Find(decision.undoes);
  const bool is_automatic = decision.by.empty() || (undone != nullptr && undone->automatic);
  const std::string owner = is_automatic ? std::string(kAutomationOwner) : decision.by;
  if (decision.undoes > 0) return {NodeResumeRequested{decision.node, owner}};
  if (decision.automatic) return {AutomaticDrainRequested{decision.node, why}};
  Hold hold;
  hold.drain = DrainMode::kSwap;
  hold.owner = owner;
  hold.reason = why;
  return {HoldRequested{decision.node, std::move(hold)}};
}

}  // namespace paceline
