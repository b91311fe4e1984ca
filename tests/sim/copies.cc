// Copies of the states of sharded models: the real CopyKeeper decides what each rank keeps. Copies
// travel for far longer than in the product, so that ranks are often lost within.
#include "tests/sim/copies.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "tests/sim/copy_judge.h"
#include "tests/sim/replica_judge.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/training.h"

namespace paceline::sim {
namespace {

constexpr Micros kLongest = 300 * kMilli;
// Of a copy that does not arrive.
constexpr double kFails = 0.05;

std::vector<CopyLabel> HeldBy(Trainer& trainer) {
  std::vector<CopyLabel> held = trainer.copies().keeper.own().Whole();
  for (const CopyLabel& label : trainer.copies().keeper.ward().Whole()) held.push_back(label);
  return held;
}

}  // namespace

// ---- Making them.

void Training::BeginCopies(Trainer& trainer) {
  trainer.copies().keeper.OnBegun();
  world_.copy_judge->OnBegun(trainer);
}

void Training::CopyState(const TrainerPtr& trainer) {
  size_t m = 0;
  Group* const group = Find(*trainer, &m);
  const JobFacts& facts = trainer->facts();
  const int64_t step = trainer->step();
  CopyKeeper& keeper = trainer->copies().keeper;
  if (group == nullptr || step <= group->furthest || step >= facts.steps ||
      keeper.orders().buddy_rank < 0) {
    return;
  }
  if (step != group->furthest + 1 && step % facts.copy_every != 0) return;
  keeper.OnOrders(trainer->order().copies);
  const std::optional<size_t> place = keeper.BeginOwn(step);
  if (place.has_value()) {
    const CopyLabel label{keeper.orders().seat, step, group->generation};
    trainer->copies().states[TrainerCopies::KeyOf(label)] = trainer->part().state;
    keeper.OnStaged(*place);
    world_.copy_judge->OnCopy(*trainer, label, trainer->part().state);
    trainer->Later(random_.Between(100, kLongest),
                   [this, group, m, place = *place, label] { SendCopy(*group, m, place, label); });
  }
  trainer->TellCopies();
}

void Training::SendCopy(Group& group, size_t m, size_t place, const CopyLabel& label) {
  if (!TakesPart(group, m)) return;
  Trainer& trainer = *group.members[m].trainer;
  CopyKeeper& keeper = trainer.copies().keeper;
  const auto b = static_cast<size_t>(keeper.orders().buddy_rank);
  const Member& buddy = group.members[b];
  std::optional<size_t> ward_place;
  if (buddy.trainer->is_alive() && TakesPart(group, b) && !random_.Chance(kFails) &&
      !world_.network->DataIsCut(trainer.node().index(), buddy.trainer->node().index())) {
    ward_place = buddy.trainer->copies().keeper.BeginWard(label, keeper.orders());
  }
  if (!ward_place.has_value()) {
    keeper.OnFailed(place, label.step, "its buddy has not got it");
    return trainer.TellCopies();
  }
  buddy.trainer->Later(random_.Between(100, kLongest),
                       [this, &group, m, place, label, ward_place = *ward_place] {
                         KeepCopy(group, m, place, label, ward_place);
                       });
}

void Training::KeepCopy(Group& group, size_t m, size_t place, const CopyLabel& label,
                        size_t ward_place) {
  Trainer& trainer = *group.members[m].trainer;
  const auto b = static_cast<size_t>(trainer.copies().keeper.orders().buddy_rank);
  if (!TakesPart(group, m) || !TakesPart(group, b)) return;
  TrainerCopies& kept = group.members[b].trainer->copies();
  kept.keeper.OnReceived(ward_place);
  const auto key = TrainerCopies::KeyOf(label);
  kept.states[key] = trainer.copies().states.at(key);
  trainer.Later(random_.Between(100, kLongest), [this, &group, m, place, label] {
    if (!TakesPart(group, m)) return;
    Trainer& sender = *group.members[m].trainer;
    sender.copies().keeper.OnSent(place, label.step);
    world_.copy_judge->OnKept(group.job, label, static_cast<int>(group.members.size()));
    sender.TellCopies();
  });
}

// ---- Going back to them.

bool Training::EnterCopies(Group& group) {
  if (group.members.front().trainer->facts().copy_every == 0) return false;
  std::vector<CopyOrders> orders;
  for (const Member& member : group.members) {
    member.trainer->copies().keeper.Enter(member.copies);
    orders.push_back(member.copies);
  }
  world_.copy_judge->OnOrders(group.job, group.generation, orders);
  return orders.front().restore;
}

void Training::GoBack(Group& group) {
  std::vector<std::vector<CopyLabel>> held;
  std::vector<CopyLabel> wanted;
  for (const Member& member : group.members) {
    held.push_back(HeldBy(*member.trainer));
    wanted.push_back(member.copies.CompleteOf(member.copies.seat));
  }
  const std::vector<int> sources = SourcesOfCopies(held, wanted);
  world_.replica_judge->Note("went back to copies");
  group.stage = Group::Stage::kGoingBack;
  group.went_back = true;
  for (size_t m = 0; m < group.members.size(); ++m) {
    Trainer& trainer = *group.members[m].trainer;
    if (sources[m] < 0) {
      return world_.trace.Fail(trainer.name(), " goes back to the copy of seat ", wanted[m].seat,
                               " after step ", wanted[m].step, ", and nobody has it");
    }
    const auto from = static_cast<size_t>(sources[m]);
    std::optional<size_t> fetched;
    if (from != m) fetched = trainer.copies().keeper.BeginFetch(wanted[m]);
    const uint64_t state =
        group.members[from].trainer->copies().states.at(TrainerCopies::KeyOf(wanted[m]));
    trainer.Later(random_.Between(100, kLongest), [this, &group, m, state, fetched] {
      const Member& member = group.members[m];
      if (member.out || !TakesPart(group, m)) return;
      const int64_t lost = world_.copy_judge->OnGoingBack(
          *member.trainer, group.generation, member.copies.CompleteOf(member.copies.seat), state);
      member.trainer->copies().keeper.OnGoingBack(lost);
      member.trainer->GiveUpState(group.generation);
      member.trainer->Later(random_.Between(100, kLongest), [this, &group, m, state, fetched] {
        TakeCopy(group, m, state, fetched);
      });
    });
  }
}

void Training::TakeCopy(Group& group, size_t m, uint64_t state, std::optional<size_t> fetched) {
  const Member& member = group.members[m];
  if (member.out || !TakesPart(group, m)) return;
  const CopyLabel label = member.copies.CompleteOf(member.copies.seat);
  TrainerCopies& copies = member.trainer->copies();
  if (fetched.has_value()) {
    copies.keeper.OnFetched(*fetched);
    copies.states[TrainerCopies::KeyOf(label)] = state;
  }
  const int rank = static_cast<int>(m);
  RankPosition at;
  at.generation = label.generation;
  at.step = label.step;
  at.rank = at.decided_rank = rank;
  at.decided = group.generation;
  at.gradients = at.exchange = {rank, 1};
  at.layout = LayoutOf(rank, group.members.size());
  member.trainer->TakeCopy(group.lanes.PositionOf(rank), state, at);
  Wait(group, m);
}

}  // namespace paceline::sim
