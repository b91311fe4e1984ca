// The cluster's part in the membership of jobs: which nodes answer, which places are free, and what
// the trainers are told.
#include <algorithm>
#include <utility>

#include "controller/core/cluster.h"
#include "controller/core/membership.h"
#include "controller/core/recovery.h"
#include "controller/core/silence.h"

namespace paceline {
namespace {

bool IsActive(const Job& job) { return job.holds_slots() && !job.stop.has_value(); }

// Any event may make a place free that it waits for.
bool WaitsForPlaces(const Job& job) {
  return job.state == JobState::kRecovering &&
         std::any_of(job.ranks.begin(), job.ranks.end(), IsLost);
}

void Take(const Place& place, std::vector<NodeSpace>& spaces) {
  for (NodeSpace& space : spaces) {
    if (space.name != place.node) continue;
    space.free.erase(std::remove(space.free.begin(), space.free.end(), place.number),
                     space.free.end());
  }
}

PlaceWish WishOf(const Job& job, PlaceUse use) {
  PlaceWish wish;
  wish.use = use == PlaceUse::kSpare ? PlaceWish::Use::kSpare : PlaceWish::Use::kRank;
  for (const RankState& member : job.ranks) {
    if (!IsLost(member)) wish.ranks.push_back(member.place);
  }
  for (const RankState& spare : job.spares) wish.spares.push_back(spare.place);
  for (const auto& [node, why] : job.recovery.vacate) wish.avoid.insert(node);
  for (const auto& [node, why] : job.recovery.avoid) wish.avoid.insert(node);
  return wish;
}

}  // namespace

std::vector<Place> Cluster::FindPlacesFor(const Job& job, PlaceUse use, int count) const {
  std::vector<Place> places;
  if (count <= 0) return places;
  std::vector<NodeSpace> spaces = Spaces(job.request.device);
  PlaceWish wish = WishOf(job, use);
  while (static_cast<int>(places.size()) < count) {
    Placement found = PlaceOne(job.request, spaces, wish);
    if (found.places.empty() && use == PlaceUse::kRankAnywhere) {
      PlaceWish any = wish;
      for (const auto& [node, why] : job.recovery.avoid) any.avoid.erase(node);
      for (const auto& [node, why] : job.recovery.vacate) any.avoid.insert(node);
      found = PlaceOne(job.request, spaces, any);
    }
    if (found.places.empty()) break;
    const Place& place = found.places.front();
    Take(place, spaces);
    (use == PlaceUse::kSpare ? wish.spares : wish.ranks).push_back(place);
    places.push_back(place);
  }
  return places;
}

void Cluster::AdvanceMemberships(bool all, const NodeName* about, Moment now, Actions& actions) {
  const auto look_at = [&](const NodeName& name, const Node& node) {
    const bool silent = node.contact != Contact::kReachable;
    const bool changed = silent ? silent_.insert(name).second : silent_.erase(name) > 0;
    all = all || changed;
  };
  if (about == nullptr) {
    for (const auto& [name, node] : nodes_) look_at(name, node);
  } else if (const auto node = nodes_.find(*about); node != nodes_.end()) {
    look_at(node->first, node->second);
  }
  const FindPlaces find = [this](const Job& job, PlaceUse use, int count) {
    return FindPlacesFor(job, use, count);
  };
  std::set<JobId> concerned = actions.show_jobs;
  concerned.insert(recovering_.begin(), recovering_.end());
  if (all) {
    // What one node does matters to those that are there, and to those that wait for places; others
    // that could use one look for it at times of their own.
    for (const auto& [id, job] : about == nullptr ? live_ : JobsOn(*about)) concerned.insert(id);
  }
  for (const JobId& id : concerned) {
    Job& job = *Find(id);
    if (!IsActive(job)) continue;
    if (!all && actions.show_jobs.count(id) == 0) {
      const bool looks = WaitsForPlaces(job) &&
                         look_pace_.MayLook(id, job.ranks.size(), /*news=*/true, now.steady);
      if (!looks) continue;
      Note(job, JobChange::kProgress, actions);  // Something else may have waited for this turn.
    }
    touched_.insert(id);
    SetSilentNodes(job, silent_, now);
    const JobChange change = AdvanceMembership(job, find, now);
    Note(job, change, actions);
    // Places are taken and given back, also while it trains.
    if (change == JobChange::kState) actions.show_nodes.insert(job.nodes.begin(), job.nodes.end());
  }
}

std::vector<PlannedTrainer> Cluster::PlanFor(const NodeName& node) const {
  std::vector<PlannedTrainer> plan;
  for (const auto& [id, known] : JobsOn(node)) {
    const Job& job = *known;
    if (!job.holds_slots()) continue;
    for (const RankState* trainer : TrainersOf(job)) {
      if (trainer->place.node != node) continue;
      PlannedTrainer planned;
      planned.id = trainer->report.id;
      planned.job = &job;
      planned.place = trainer->place.number;
      planned.membership = MembershipOf(job, *trainer);
      planned.store_address = planned.membership.store_address;
      planned.stop_grace = StopGrace(job, *trainer);
      planned.save_stacks = !trainer->hangs.empty();
      planned.leased = Recovers(job);
      planned.restores = trainer->report.id.generation == job.recovery.started &&
                         trainer->report.id.rank.value() < job.request.ranks;
      plan.push_back(std::move(planned));
    }
  }
  std::sort(plan.begin(), plan.end(),
            [](const PlannedTrainer& a, const PlannedTrainer& b) { return a.id < b.id; });
  return plan;
}

}  // namespace paceline
