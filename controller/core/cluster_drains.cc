// The cluster's drains under way: what is asked of the jobs that still have ranks on such a node.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/cluster.h"
#include "controller/core/membership.h"
#include "controller/core/recovery.h"
#include "controller/core/save_order.h"

namespace paceline {
namespace {

// A job whose save for a drain has failed is asked again after so long.
constexpr absl::Duration kSaveAgain = absl::Minutes(1);

}  // namespace

std::vector<DrainEffect> Cluster::EffectsOfDrain(const NodeName& node, DrainMode mode) const {
  std::vector<DrainEffect> effects;
  for (const auto& [id, job] : JobsOn(node)) {
    if (!job->holds_slots() || !HasTrainersOn(*job, node)) continue;
    effects.push_back(ChooseEffect(*job, node, mode));
    if (effects.back().way == DrainWay::kSwap) FindSubstitutes(*job, node, effects.back());
  }
  return effects;
}

void Cluster::FindSubstitutes(const Job& job, const NodeName& node, DrainEffect& effect) const {
  Job leaving = job;
  leaving.recovery.vacate.emplace(node, "");
  const size_t ranks = effect.ranks.size();
  std::vector<NodeName> spares;
  for (const RankState& spare : leaving.spares) {
    if (spares.size() < ranks && IsUsable(leaving, spare)) spares.push_back(spare.place.node);
  }
  std::vector<NodeName> places;
  const int wanted = static_cast<int>(ranks - spares.size());
  for (const Place& place : FindPlacesFor(leaving, PlaceUse::kRank, wanted)) {
    places.push_back(place.node);
  }
  NameSubstitutes(effect, spares, places);
}

int Cluster::CountPlacesElsewhere(const Job& job, const NodeName& node, int wanted) const {
  Job leaving = job;
  leaving.recovery.vacate.emplace(node, "");
  return static_cast<int>(FindPlacesFor(leaving, PlaceUse::kRank, wanted).size());
}

void Cluster::DrainNodes(Moment now, Actions& actions) {
  for (const NodeName& name : held_) {
    const Node& node = nodes_.at(name);
    const Hold* drain = EffectiveDrain(node.holds);
    if (drain == nullptr || node.contact == Contact::kLost) continue;
    const std::string why = absl::StrCat("node ", name.value(), " is ", DescribeHold(*drain));
    for (const auto& [id, known] : JobsOn(name)) {
      Job& job = *known;
      if (!job.holds_slots() || !HasTrainersOn(job, name)) continue;
      Note(job, Drain(job, ChooseEffect(job, name, *drain->drain).way, name, why, now), actions);
    }
  }
}

JobChange Cluster::Drain(Job& job, DrainWay way, const NodeName& node, const std::string& why,
                         Moment now) {
  switch (way) {
    case DrainWay::kFinish:
      return JobChange::kNone;
    case DrainWay::kSwap:
      return RequestReplacement(job, node, why);
    case DrainWay::kSaveAndRequeue: {
      if (job.checkpoints.stop_after.has_value() || RefuseSave(job).has_value()) {
        return JobChange::kNone;
      }
      const auto [asked, first] = saves_for_drains_.emplace(job.request.id, now.steady);
      if (!first && now.steady < asked->second + kSaveAgain) return JobChange::kNone;
      asked->second = now.steady;
      RequeueWhenSaved(job, why, node, now);
      return JobChange::kState;
    }
    case DrainWay::kRequeue:
      return RequeueJob(job, why, kFailureGrace, now);
    case DrainWay::kEndRanks:
      return EndTrainersOn(job, node, why, now);
  }
  return JobChange::kNone;
}

void Cluster::On(const ReplacementRequested& event, Moment, Actions& actions) {
  const auto job = jobs_.find(event.job);
  if (job == jobs_.end()) return;
  const JobChange change = RequestReplacement(job->second, event.node, event.why);
  if (change == JobChange::kState) job->second.recovery.avoid[event.node] = event.why;
  Note(job->second, change, actions);
}

void Cluster::On(const ReplacementWithdrawn& event, Moment, Actions& actions) {
  const auto job = jobs_.find(event.job);
  if (job == jobs_.end()) return;
  const JobChange change = WithdrawReplacement(job->second, event.node);
  if (change == JobChange::kState) job->second.recovery.avoid.erase(event.node);
  Note(job->second, change, actions);
}

void Cluster::On(const RanksGivenUp& event, Moment now, Actions& actions) {
  const auto job = jobs_.find(event.job);
  if (job == jobs_.end() || !Recovers(job->second)) return;
  const JobChange change = EndTrainersOn(job->second, event.node, event.why, now);
  if (change == JobChange::kState) job->second.recovery.avoid[event.node] = event.why;
  Note(job->second, change, actions);
}

void Cluster::EndDrain(const Node& node, Actions& actions) {
  const Hold* drain = EffectiveDrain(node.holds);
  for (auto& [id, job] : jobs_) {
    if (drain == nullptr || drain->drain == DrainMode::kFinish) {
      Note(job, WithdrawRequeue(job, node.facts.name), actions);
    }
    if (drain == nullptr || drain->drain != DrainMode::kSwap) {
      Note(job, WithdrawReplacement(job, node.facts.name), actions);
    }
  }
}

}  // namespace paceline
