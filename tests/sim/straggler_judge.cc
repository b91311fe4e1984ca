#include "tests/sim/straggler_judge.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "absl/strings/ascii.h"
#include "controller/core/job/plan.h"
#include "controller/core/recovery/membership.h"
#include "tests/sim/digest.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/straggler_options.h"

namespace paceline::sim {
namespace {

// Bound on the lateness of the controller's timers.
constexpr absl::Duration kLate = absl::Seconds(1);
// Time after which the steps of a slow node have reached the controller.
constexpr Micros kKnown = kSecond / 2;

bool IsReplacement(const RemedyDecision& decision) {
  return decision.undoes == 0 && !IsOfPlan(decision.kind);
}

// Whether the decision has been more than advice.
bool WasOrdered(const RemedyDecision& decision) {
  return decision.state != DecisionState::kWithdrawn && !IsOpenAdvice(decision);
}

// The latest of the times, by decision.
Micros Latest(const std::map<int64_t, Micros>& times) {
  Micros latest = -kNever;
  for (const auto& [decision, time] : times) latest = std::max(latest, time);
  return latest;
}

// Drops the times of orders that are not stored: they were not sent, and nobody knows of them.
void KeepStored(const Stored& stored, const JobId& job, std::map<int64_t, Micros>& times) {
  for (auto time = times.begin(); time != times.end();) {
    const auto found = stored.decisions.find({job, time->first});
    const bool is_stored = found != stored.decisions.end() && WasOrdered(*found->second);
    time = is_stored ? std::next(time) : times.erase(time);
  }
}

// Digest of the fields of a decision that never change.
uint64_t MeaningOf(const RemedyDecision& decision) {
  RemedyDecision meaning;
  meaning.id = decision.id;
  meaning.kind = decision.kind;
  meaning.made = decision.made;
  meaning.undoes = decision.undoes;
  meaning.rank = decision.rank;
  meaning.node = decision.node;
  meaning.generation = decision.generation;
  meaning.plan_version = decision.plan_version;
  meaning.reason = decision.reason;
  return DigestOf(meaning);
}

bool PlanHasFailed(const Job& job) {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& rank) {
    return rank.report.plan.failed == job.plan.version;
  });
}

const SimNode* FindNode(const World& world, const NodeName& name) {
  for (const auto& node : world.nodes) {
    if (node->name() == name) return node.get();
  }
  return nullptr;
}

}  // namespace

template <typename... Args>
void StragglerJudge::Fail(const Job& job, const RemedyDecision& decision, const Args&... args) {
  world_.trace.Fail("decision ", decision.id, " of ", job.request.id.value(), " (",
                    DescribeRemedy(decision), "): ", args...);
}

void StragglerJudge::OnRestored(const Stored& stored,
                                const std::map<JobId, std::vector<RemedyDecision>>& decisions) {
  states_.clear();
  liveness_.OnRestored();
  for (auto& [id, job] : jobs_) {
    job.stored.clear();
    KeepStored(stored, id, job.changed);
    KeepStored(stored, id, job.rested);
  }
  std::map<Key, uint64_t> restored;
  for (const auto& [id, of_job] : decisions) {
    for (const RemedyDecision& decision : of_job) {
      restored[{id, decision.id}] = DigestOf(decision);
      states_[{id, decision.id}] = decision.state;
    }
  }
  for (const auto& [key, decision] : stored.decisions) {
    const uint64_t digest = DigestOf(*decision);
    jobs_[key.first].stored[key.second] = digest;
    const auto found = restored.find(key);
    if (found != restored.end() && found->second == digest) continue;
    world_.trace.Fail("decision ", key.second, " of ", key.first.value(),
                      " is not what was stored after a restart");
  }
  if (restored.size() != stored.decisions.size()) {
    world_.trace.Fail("decisions are known after a restart that were not stored");
  }
}

void StragglerJudge::OnDecided(const Cluster& cluster, const Stragglers& stragglers,
                               const StragglerActions& decided) {
  for (const Key& key : decided.store) {
    const RemedyDecision& decision = *stragglers.Find(key.first)->policy().Find(key.second);
    const Job& job = cluster.jobs().at(key.first);
    const auto [known, is_new] = states_.try_emplace(key, decision.state);
    const DecisionState before = std::exchange(known->second, decision.state);
    if (!is_new && before == decision.state) continue;
    Count(decision);
    OfJob& of_job = jobs_[key.first];
    if (IsInFlight(decision)) CheckOrder(cluster, job, decision);
    const bool ended = before == DecisionState::kOrdered && !IsInFlight(decision);
    if (ended || decision.state == DecisionState::kDidNotHelp) {
      of_job.rested[decision.id] = world_.time.now();
    }
  }
}

void StragglerJudge::CheckOrder(const Cluster& cluster, const Job& job,
                                const RemedyDecision& decision) {
  const bool is_present =
      decision.generation == job.generation && decision.plan_version == FindActivePlan(job).version;
  if (!is_present && !OutlivesGenerations(decision)) {
    Fail(job, decision, "ordered in generation ", job.generation.value(), " with plan version ",
         FindActivePlan(job).version.value(), ", and it rests on generation ",
         decision.generation.value(), " with plan version ", decision.plan_version.value());
  }
  if (job.state != JobState::kRunning || ChangeUnderWay(job) != nullptr) {
    Fail(job, decision, "ordered while the job does not train, or changes its membership");
  }
  const auto rank = static_cast<size_t>(decision.rank);
  if (IsReplacement(decision) && decision.rank >= 0 &&
      (rank >= job.ranks.size() || job.ranks[rank].slot.node != decision.node)) {
    Fail(job, decision, "ordered, and the rank is elsewhere");
  }
  if (IsOfPlan(decision.kind) && decision.undoes == 0) {
    std::map<int64_t, Micros>& changed = jobs_[job.request.id].changed;
    const Micros window = ToMicros(ShortHistoryOptions().remedy.ladder_window);
    if (world_.time.now() < Latest(changed) + window) {
      Fail(job, decision, "ladder or strategy was changed less than ladder_window ago");
    }
    changed[decision.id] = world_.time.now();
  }
  if (IsForPeople(decision.kind)) Fail(job, decision, "ordered, and it is for people");
  if (decision.automatic) CheckAutomatic(cluster, job, decision);
}

void StragglerJudge::CheckAutomatic(const Cluster& cluster, const Job& job,
                                    const RemedyDecision& decision) {
  const bool may = job.request.stragglers == StragglerMode::kAuto ||
                   (job.request.stragglers == StragglerMode::kAdvise &&
                    job.request.strategy.is_auto && decision.kind == RemedyKind::kStrategy);
  if (!may) {
    Fail(job, decision, "ordered by the automation, and the mode is not auto");
  }
  if (cluster.automation().paused) {
    Fail(job, decision, "ordered by the automation, which is paused");
  }
  if (decision.undoes > 0) return;
  const Micros cool_down = ToMicros(ShortHistoryOptions().remedy.cool_down);
  if (world_.time.now() < Latest(jobs_[job.request.id].rested) + cool_down) {
    Fail(job, decision, "ordered by the automation within cool_down");
  }
  if (decision.kind == RemedyKind::kDrain && cluster.RefuseAutomatic(decision.node).has_value()) {
    Fail(job, decision, "ordered by the automation in spite of its brake");
  }
  if (IsReplacement(decision)) CheckReplaced(job, decision);
}

void StragglerJudge::CheckReplaced(const Job& job, const RemedyDecision& decision) {
  const SimNode* const replaced = FindNode(world_, decision.node);
  if (replaced == nullptr) return Fail(job, decision, "no such node");
  size_t liars = 0;  // Ranks on nodes whose daemons have reported false times.
  size_t together = 0;
  bool others = false;  // Ranks on other nodes, too.
  for (const RankState& rank : job.ranks) {
    const SimNode* const node = FindNode(world_, rank.slot.node);
    liars += node->reported_nonsense ? 1 : 0;
    const bool is_slow = node->slowness > 1 && replaced->slowness > 1;
    if (!is_slow || node->slow_together != replaced->slow_together) continue;
    ++together;
    others = others || node != replaced;
  }
  if (replaced->reported_nonsense || 4 * liars > job.ranks.size()) return;
  if (!replaced->was_slow) Fail(job, decision, "replaced, and its node never was slow");
  // A slowdown that has just begun cannot be known yet; the reason is then an earlier one.
  const bool is_known = world_.time.now() - replaced->slowed >= kKnown;
  if (is_known && replaced->slow_together > 0 && others && 4 * together > job.ranks.size()) {
    Fail(job, decision, "replaced, and ", together, " of ", job.ranks.size(),
         " ranks became slow together");
  }
}

void StragglerJudge::OnStored(const Cluster& cluster, const Stragglers& stragglers,
                              const Stored& puts, const std::vector<Key>& forgotten) {
  liveness_.OnStep(cluster, stragglers);
  for (const auto& [key, decision] : puts.decisions) {
    jobs_[key.first].stored[key.second] = DigestOf(*decision);
  }
  for (const Key& key : forgotten) jobs_[key.first].stored.erase(key.second);
  for (const auto& [id, job] : cluster.jobs()) {
    const JobStragglers* const known = stragglers.Find(id);
    CheckKind(job);
    if (known != nullptr) {
      CheckStored(job, known->policy());
    } else if (!jobs_[id].stored.empty()) {
      world_.trace.Fail(id.value(), " has decisions that are stored and not known");
    }
  }
}

void StragglerJudge::CheckKind(const Job& job) {
  OfJob& of_job = jobs_[job.request.id];
  const bool slipstream = job.plan.slipstream.has_value();
  const bool trains = !job.ranks.empty() && of_job.generation == job.generation;
  if (trains && slipstream != of_job.slipstream) {
    world_.trace.Fail(job.request.id.value(), " changes to or from Slipstream in generation ",
                      job.generation.value());
  }
  if (slipstream != of_job.slipstream) {
    world_.coverage.Count(slipstream ? "goes on with slipstream" : "goes on with ddp");
  }
  of_job.generation = job.generation;
  of_job.slipstream = slipstream;
}

void StragglerJudge::CheckStored(const Job& job, const RemedyPolicy& policy) {
  const std::map<int64_t, uint64_t>& stored = jobs_[job.request.id].stored;
  int under_way = 0;
  const RemedyDecision* ladder = nullptr;  // The newest one that was ordered.
  const RemedyDecision* strategy = nullptr;
  for (const RemedyDecision& decision : policy.decisions()) {
    const auto found = stored.find(decision.id);
    if (found == stored.end() || found->second != DigestOf(decision)) {
      Fail(job, decision, "has changed and was not stored with the event that changed it");
    }
    const bool is_under_way = IsInFlight(decision) || IsChecked(decision);
    under_way += is_under_way ? 1 : 0;
    if (job.ended_already() && (is_under_way || IsOpenAdvice(decision))) {
      Fail(job, decision, "the job has ended, and it is ", NameOf(decision.state));
    }
    if (is_under_way) CheckTimes(job, decision);
    if (!WasOrdered(decision)) continue;
    if (decision.kind == RemedyKind::kLadder) ladder = &decision;
    if (decision.kind == RemedyKind::kStrategy) strategy = &decision;
  }
  if (strategy != nullptr && strategy->state == DecisionState::kFailed &&
      job.state == JobState::kRunning && ChangeUnderWay(job) == nullptr &&
      !job.next_plan.has_value() && !(strategy->strategy == strategy->former_strategy) &&
      job.plan.slipstream == strategy->strategy) {
    Fail(job, *strategy, "has failed, and the job trains by its strategy");
  }
  if (ladder != nullptr && ladder->state == DecisionState::kFailed &&
      ladder->ladder != ladder->former && job.plan.ladder == ladder->ladder && PlanHasFailed(job)) {
    Fail(job, *ladder, "has failed, and the job's plan has its ladder still");
  }
  if (under_way > 1) world_.trace.Fail(job.request.id.value(), " has two orders under way");
  if (stored.size() != policy.decisions().size()) {
    world_.trace.Fail(job.request.id.value(), " has decisions that are stored and not known");
  }
}

void StragglerJudge::CheckTimes(const Job& job, const RemedyDecision& decision) {
  const RemedyOptions remedy = ShortHistoryOptions().remedy;
  const absl::Duration limit =
      IsInFlight(decision) ? remedy.order_timeout : CheckTimeout(decision, remedy);
  if (world_.controller->Now().steady <= decision.since + limit + kLate) return;
  Fail(job, decision, "is ", NameOf(decision.state), " for more than ",
       absl::FormatDuration(limit));
}

void StragglerJudge::OnDurable(const Stored& puts) {
  for (const auto& [key, decision] : puts.decisions) {
    const auto [known, is_new] = durable_.try_emplace(key, MeaningOf(*decision));
    if (is_new || known->second == MeaningOf(*decision)) continue;
    world_.trace.Fail("decision ", key.second, " of ", key.first.value(),
                      " was something else before: its id is used twice");
  }
}

void StragglerJudge::Count(const RemedyDecision& decision) {
  std::string what = absl::AsciiStrToLower(NameOf(decision.kind));
  if (decision.undoes > 0) what += " taken back";
  if (IsInFlight(decision)) what += decision.automatic ? " by the automation" : " by a person";
  world_.coverage.Count("decision " + absl::AsciiStrToLower(NameOf(decision.state)) + ": " + what);
}

}  // namespace paceline::sim
