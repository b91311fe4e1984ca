#include "controller/core/stragglers/job/straggler_facts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/job/plan.h"
#include "controller/core/node/hold.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// What a rank's speed depends on: the GPU models of its node. Ranks on CPUs count as alike.
std::string HardwareOf(const Cluster& cluster, const Job& job, const NodeName& name) {
  if (job.request.device == Device::kCpu) return "";
  const auto node = cluster.nodes().find(name);
  if (node == cluster.nodes().end()) return "";
  return absl::StrJoin(node->second.facts.gpus, ",");
}

bool IsSound(const Cluster& cluster, const NodeName& name) {
  const auto node = cluster.nodes().find(name);
  if (node == cluster.nodes().end()) return false;
  const auto& result = node->second.checks.result;
  return !result.has_value() ||
         std::none_of(result->measurements.begin(), result->measurements.end(),
                      [](const Measurement& measurement) { return measurement.bad; });
}

int CountSpares(const Cluster& cluster, const Job& job) {
  return static_cast<int>(
      std::count_if(job.spares.begin(), job.spares.end(), [&](const RankState& spare) {
        return IsReady(spare) && IsUsable(job, spare) && IsSound(cluster, spare.slot.node);
      }));
}

RemedyNode ViewNode(const Cluster& cluster, const Job& job, const NodeName& name) {
  RemedyNode node;
  node.ranks = static_cast<int>(
      std::count_if(job.ranks.begin(), job.ranks.end(),
                    [&](const RankState& rank) { return rank.slot.node == name; }));
  node.slots_elsewhere = cluster.CountSlotsElsewhere(job, name, node.ranks);
  const auto refusal = cluster.RefuseAutomatic(name);
  if (refusal.has_value()) node.brake = refusal->message;
  return node;
}

// 0: it cannot go on with one rank fewer. One of a sharded model never can.
int MinRanks(const Job& job) {
  const int fewer = static_cast<int>(job.ranks.size()) - 1;
  const bool is_possible = fewer > 0 && PossibleRanksOf(job.request, fewer) == fewer;
  return is_possible ? job.request.recovery.min_ranks : 0;
}

}  // namespace

JobView ViewJob(const Cluster& cluster, const Job& job) {
  JobView view;
  view.job = &job;
  RemedyFacts& facts = view.facts;
  facts.generation = job.generation;
  facts.plan_version = FindActivePlan(job).version;
  facts.running = job.state == JobState::kRunning && ChangeUnderWay(job) == nullptr;
  facts.plan_pending = IsPlanPending(job);
  facts.has_ladder = job.request.strategy.has_ladder;
  facts.is_auto = job.request.strategy.is_auto;
  facts.recovers = !WhyRanksCannotMove(job).has_value();
  facts.ranks = static_cast<int>(job.ranks.size());
  facts.min_ranks = MinRanks(job);
  facts.step = Summarize(job, absl::InfinitePast()).step;
  facts.steps_left = std::max<int64_t>(0, job.request.steps - facts.step);
  facts.spares =
      static_cast<int>(std::count_if(job.spares.begin(), job.spares.end(),
                                     [&](const RankState& spare) { return IsUsable(job, spare); }));
  facts.checked_spares = CountSpares(cluster, job);
  const Automation& automation = cluster.automation();
  if (automation.paused) {
    facts.brake = absl::StrCat("the automation is paused by ", automation.owner,
                               automation.reason.empty() ? "" : ": ", automation.reason);
  }
  facts.node = [&cluster, &job](const NodeName& name) { return ViewNode(cluster, job, name); };
  const NodeName* previous = nullptr;  // The next rank is usually on the same one.
  for (const RankState& rank : job.ranks) {
    const bool is_same = previous != nullptr && *previous == rank.slot.node;
    view.hardware.push_back(is_same ? view.hardware.back()
                                    : HardwareOf(cluster, job, rank.slot.node));
    previous = &rank.slot.node;
  }
  view.is_drained = [&cluster](const NodeName& name) {
    const auto node = cluster.nodes().find(name);
    return node != cluster.nodes().end() && EffectiveDrain(node->second.holds) != nullptr;
  };
  return view;
}

}  // namespace paceline
