// The cluster's part in the membership of jobs: which nodes answer, which slots are free, and what
// the trainers are told; and what is asked of jobs with ranks on a node that drains.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/recovery.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/recovery/unreachable.h"

namespace paceline {
namespace {

// How long after a failed save for a drain the job is asked again.
constexpr absl::Duration kSaveAgain = absl::Minutes(1);

// The only node that the event is about; null: it may be about all. Such an event changes that
// node, the jobs that its report names, and those that are to be shown.
const NodeName* NodeOf(const Event& event) {
  if (const auto* reported = std::get_if<NodeReported>(&event)) return &reported->node;
  if (const auto* connected = std::get_if<NodeConnected>(&event)) return &connected->facts.name;
  if (const auto* gone = std::get_if<NodeDisconnected>(&event)) return &gone->node;
  return nullptr;
}

bool IsActive(const Job& job) { return job.holds_slots() && !job.stop.has_value(); }

// Whether the job waits for slots, which any event may free.
bool WaitsForSlots(const Job& job) {
  return job.state == JobState::kRecovering &&
         std::any_of(job.ranks.begin(), job.ranks.end(), IsLost);
}

// Null: there is no such node. `spaces` is sorted by name.
NodeSpace* FindSpace(const NodeName& node, std::vector<NodeSpace>& spaces) {
  const auto found = std::lower_bound(
      spaces.begin(), spaces.end(), node,
      [](const NodeSpace& space, const NodeName& wanted) { return space.name < wanted; });
  return found == spaces.end() || found->name != node ? nullptr : &*found;
}

void Take(const Slot& slot, std::vector<NodeSpace>& spaces) {
  NodeSpace* const space = FindSpace(slot.node, spaces);
  if (space == nullptr) return;
  space->free.erase(std::remove(space->free.begin(), space->free.end(), slot.number),
                    space->free.end());
}

// Adds slots on the node of the only one, `count` in all: those that PlaceOne would find one after
// another, as nothing is nearer to a rank than its own node.
void FillNode(std::vector<NodeSpace>& spaces, size_t count, std::vector<Slot>& slots) {
  const Slot first = slots.front();
  const NodeSpace* const space = FindSpace(first.node, spaces);
  if (space == nullptr) return;
  for (const int number : space->free) {
    if (slots.size() >= count) return;
    if (number == first.number) continue;
    slots.push_back(first);
    slots.back().number = number;
  }
}

int CountTaken(const ReplicaHome* home) {
  return home == nullptr ? 0 : static_cast<int>(home->taken.size());
}

// Leaves out slots that are kept for waiting jobs.
void LeaveKept(std::vector<NodeSpace>& spaces) {
  for (NodeSpace& space : spaces) {
    const auto kept = static_cast<size_t>(space.kept);
    space.free.resize(space.free.size() - std::min(space.free.size(), kept));
    space.kept = 0;
  }
}

// Leaves out nodes whose slots others wait for.
void LeaveWanted(const NodeSet& wanted, std::vector<NodeSpace>& spaces) {
  wanted.ForEach([&](int n) { spaces[static_cast<size_t>(n)].free.clear(); });
}

SlotWish WishOf(const Job& job, SlotUse use) {
  SlotWish wish;
  wish.use = use == SlotUse::kSpare ? SlotWish::Use::kSpare : SlotWish::Use::kRank;
  for (const RankState& member : job.ranks) {
    if (!IsLost(member)) wish.ranks.push_back(member.slot);
  }
  for (const RankState& spare : job.spares) wish.spares.push_back(spare.slot);
  for (const auto& [node, why] : job.recovery.vacate) wish.avoid.insert(node);
  for (const auto& [node, why] : job.recovery.avoid) wish.avoid.insert(node);
  wish.domain = WidestDomain(job);
  return wish;
}

}  // namespace

std::vector<DrainEffect> Cluster::EffectsOfDrain(const NodeName& node, DrainMode mode,
                                                 Moment now) const {
  std::vector<DrainEffect> effects;
  for (const auto& [id, job] : jobs_.On(node)) {
    if (!job->holds_slots() || !HasTrainersOn(*job, node)) continue;
    DrainEffect& effect = effects.emplace_back(ChooseEffect(*job, node, mode));
    if (effect.way == DrainWay::kSwap) FindSubstitutes(*job, node, effect);
    if (effect.way == DrainWay::kEndRanks && AreAllSilent(*job, now)) NameSilence(effect, node);
  }
  return effects;
}

void Cluster::FindSubstitutes(const Job& job, const NodeName& node, DrainEffect& effect) const {
  Job leaving = job;
  leaving.recovery.vacate.emplace(node, "");
  const size_t ranks = effect.ranks.size();
  std::vector<NodeName> spares;
  for (const RankState& spare : leaving.spares) {
    if (spares.size() < ranks && IsUsable(leaving, spare)) spares.push_back(spare.slot.node);
  }
  std::vector<NodeName> slots;
  const int wanted = static_cast<int>(ranks - spares.size());
  for (const Slot& slot : FindSlotsFor(leaving, SlotUse::kRank, wanted, nullptr)) {
    slots.push_back(slot.node);
  }
  NameSubstitutes(effect, spares, slots);
}

int Cluster::CountSlotsElsewhere(const Job& job, const NodeName& node, int wanted) const {
  Job leaving = job;
  leaving.recovery.vacate.emplace(node, "");
  return static_cast<int>(FindSlotsFor(leaving, SlotUse::kRank, wanted, nullptr).size());
}

void Cluster::DrainNodes(Moment now, Actions& actions) {
  for (const NodeName& name : nodes_.held()) {
    const Node& node = *nodes_.Find(name);
    const Hold* drain = EffectiveDrain(node.holds);
    if (drain == nullptr || node.contact == Contact::kLost) continue;
    const std::string why = absl::StrCat("node ", name.value(), " is ", DescribeHold(*drain));
    for (const auto& [id, known] : jobs_.On(name)) {
      if (!known->holds_slots() || !HasTrainersOn(*known, name)) continue;
      const DrainWay way = ChooseEffect(*known, name, *drain->drain).way;
      if (way == DrainWay::kFinish) continue;
      Job& job = *jobs_.Change(id);
      Note(job, Drain(job, way, name, why, now), actions);
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
      // Ranks that cannot be told to end may train on with others that cannot be told either.
      if (AreAllSilent(job, now)) {
        const bool late = nodes_.Find(node)->contact == Contact::kReachable;
        return late ? JobChange::kNone : NoteWaitingDrain(job, node, why, now);
      }
      job.recovery.waiting_drains.erase(node);
      return EndTrainersOn(job, node, why, now);
  }
  return JobChange::kNone;
}

void Cluster::On(const ReplacementRequested& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  const JobChange change = RequestReplacement(*job, event.node, event.why);
  if (change == JobChange::kState) job->recovery.avoid[event.node] = event.why;
  Note(*job, change, actions);
}

void Cluster::On(const ReplacementWithdrawn& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  const JobChange change = WithdrawReplacement(*job, event.node);
  if (change == JobChange::kState) job->recovery.avoid.erase(event.node);
  Note(*job, change, actions);
}

void Cluster::On(const RanksGivenUp& event, Moment now, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr || !Recovers(*job)) return;
  const JobChange change = EndTrainersOn(*job, event.node, event.why, now);
  if (change == JobChange::kState) job->recovery.avoid[event.node] = event.why;
  Note(*job, change, actions);
}

void Cluster::EndDrain(const Node& node, Actions& actions) {
  const Hold* drain = EffectiveDrain(node.holds);
  for (auto& [id, job] : jobs_.ChangeAll()) {
    if (drain == nullptr || drain->drain == DrainMode::kFinish) {
      Note(job, WithdrawRequeue(job, node.facts.name), actions);
    }
    if (drain == nullptr || drain->drain != DrainMode::kNow) {
      job.recovery.waiting_drains.erase(node.facts.name);
    }
    if (drain == nullptr || drain->drain != DrainMode::kSwap) {
      Note(job, WithdrawReplacement(job, node.facts.name), actions);
    }
  }
}

std::vector<Slot> Cluster::FindSlotsFor(const Job& job, SlotUse use, int count,
                                        const ReplicaHome* home) const {
  std::vector<Slot> slots;
  const bool is_extra = use == SlotUse::kExtra;
  const bool grows = is_extra || use == SlotUse::kGrowth;
  if (grows) count = std::min(count, QuotaLeft(job.request) - CountTaken(home));
  if (count <= 0 || (is_extra && Wanted().HasQueue(job.request))) return slots;
  std::vector<NodeSpace> spaces = Spaces(job.request.device);
  if (grows) LeaveKept(spaces);
  if (is_extra) LeaveWanted(Wanted().Of(job.request.device), spaces);
  SlotWish wish = WishOf(job, use);
  if (home != nullptr) {
    wish.replica = home->nodes;
    for (const Slot& slot : home->taken) Take(slot, spaces);
  }
  const bool together = home != nullptr && home->nodes.empty();
  const auto place = [&](const SlotWish& where) {
    return together ? PlaceReplica(job.request, spaces, where, count)
                    : PlaceOne(job.request, spaces, where);
  };
  while (static_cast<int>(slots.size()) < count) {
    Placement found = place(wish);
    if (found.slots.empty() && use == SlotUse::kRankAnywhere) {
      SlotWish any = wish;
      for (const auto& [node, why] : job.recovery.avoid) any.avoid.erase(node);
      for (const auto& [node, why] : job.recovery.vacate) any.avoid.insert(node);
      found = place(any);
    }
    if (found.slots.empty()) break;
    if (grows && home == nullptr) {
      FillNode(spaces, static_cast<size_t>(count) - slots.size(), found.slots);
    }
    for (const Slot& slot : found.slots) {
      Take(slot, spaces);
      (use == SlotUse::kSpare ? wish.spares : wish.ranks).push_back(slot);
      slots.push_back(slot);
    }
  }
  return slots;
}

std::vector<Slot> Cluster::FindIdle(const Job& job, int count,
                                    std::vector<NodeSpace>& spaces) const {
  const WantedSlots& wanted = Wanted();
  if (wanted.HasQueue(job.request)) return {};
  count = std::min(count, QuotaLeft(job.request));
  if (count <= 0) return {};
  if (spaces.empty()) {
    spaces = Spaces(job.request.device);
    LeaveKept(spaces);
    LeaveWanted(wanted.Of(job.request.device), spaces);
  }
  return ListSlots(job.request, spaces, Index(), WishOf(job, SlotUse::kIdle), count);
}

void Cluster::AdvanceMemberships(const Event& event, Moment now, Actions& actions) {
  const int64_t contact_changes = nodes_.contact_changes();
  const bool contact_changed = std::exchange(contact_changes_, contact_changes) != contact_changes;
  const bool all = contact_changed || !std::holds_alternative<NodeReported>(event);
  std::array<std::vector<NodeSpace>, 2> idle;  // By Device; of the first job that looks for them.
  const FindSlots find = [&](const Job& job, SlotUse use, int count, const ReplicaHome* home) {
    if (use == SlotUse::kIdle) {
      return FindIdle(job, count, idle[static_cast<size_t>(job.request.device)]);
    }
    return FindSlotsFor(job, use, count, home);
  };
  std::set<JobId> concerned = actions.show_jobs;
  concerned.insert(jobs_.recovering().begin(), jobs_.recovering().end());
  if (all) {
    // What one node does concerns the jobs that have ranks there and those that wait for slots.
    // Others that could use a slot look for one at times of their own.
    const NodeName* const about = NodeOf(event);
    for (const auto& [id, job] : about == nullptr ? jobs_.live() : jobs_.On(*about)) {
      concerned.insert(id);
    }
  }
  for (const JobId& id : concerned) {
    const Job& known = *jobs_.Find(id);
    if (!IsActive(known)) continue;
    if (!all && actions.show_jobs.count(id) == 0) {
      const bool looks = WaitsForSlots(known) &&
                         look_throttle_.MayLook(id, known.ranks.size(), /*news=*/true, now.steady);
      if (!looks) continue;
      Note(known, JobChange::kProgress, actions);  // Something else may have waited for this turn.
    }
    Job& job = *jobs_.Change(id);
    SetUnreachableNodes(job, nodes_.unreachable(), now);
    const JobChange change = AdvanceMembership(job, find, now);
    Note(job, change, actions);
    // Slots may have been taken or given back, even while it trains.
    if (change == JobChange::kState) actions.show_nodes.insert(job.nodes.begin(), job.nodes.end());
  }
}

std::vector<PlannedTrainer> Cluster::PlanFor(const NodeName& node) const {
  std::vector<PlannedTrainer> plan;
  for (const auto& [id, known] : jobs_.On(node)) {
    const Job& job = *known;
    if (!job.holds_slots()) continue;
    for (const RankState* trainer : TrainersOf(job)) {
      if (trainer->slot.node != node) continue;
      PlannedTrainer planned;
      planned.id = trainer->report.id;
      planned.job = &job;
      planned.slot = trainer->slot.number;
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
