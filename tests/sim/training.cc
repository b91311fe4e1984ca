#include "tests/sim/training.h"

#include <algorithm>

#include "tests/sim/observer.h"
#include "tests/sim/sim_node.h"

namespace paceline::sim {

void Training::Join(const TrainerPtr& trainer) {
  Group& group = groups_[{trainer->id().job, trainer->id().generation}];
  group.members.resize(static_cast<size_t>(trainer->order().world_size));
  Member& member = group.members[static_cast<size_t>(trainer->id().rank.value())];
  if (member.trainer != nullptr) {
    world_.trace.Fail("two trainers of ", trainer->id().job.value(), " g",
                      trainer->id().generation.value(), " r", trainer->id().rank.value(), " met");
    return;
  }
  member.trainer = trainer;
  Wait(group, trainer);
}

void Training::Arrive(const TrainerPtr& trainer) {
  Wait(groups_.at({trainer->id().job, trainer->id().generation}), trainer);
}

void Training::Wait(Group& group, const TrainerPtr& trainer) {
  const auto m = static_cast<size_t>(trainer->id().rank.value());
  Member& member = group.members[m];
  member.waits = true;
  ++member.wait;
  // The members of a group outlive the history.
  const bool gone = std::any_of(group.members.begin(), group.members.end(), [](const Member& peer) {
    return peer.trainer != nullptr && !peer.trainer->is_alive();
  });
  if (gone) Fail(group, m, random_.Between(1, 30) * kMilli, "a peer is gone");
  Fail(group, m, trainer->facts().collective_timeout, "timed out");
  TryExchange(group);
}

void Training::Fail(Group& group, size_t m, Micros delay, std::string why) {
  Member& member = group.members[m];
  member.trainer->Later(delay, [&group, m, wait = member.wait, why = std::move(why)] {
    Member& waiting = group.members[m];
    if (!waiting.waits || waiting.wait != wait) return;
    waiting.waits = false;
    waiting.trainer->OnCollectiveError(why);
  });
}

bool Training::IsConnected(const Group& group) const {
  for (const Member& a : group.members) {
    for (const Member& b : group.members) {
      const int x = a.trainer->node().index();
      const int y = b.trainer->node().index();
      if (x < y && world_.network->DataIsCut(x, y)) return false;
    }
  }
  return true;
}

void Training::TryExchange(Group& group) {
  const bool all =
      std::all_of(group.members.begin(), group.members.end(), [](const Member& member) {
        return member.trainer != nullptr && member.waits && member.trainer->is_alive();
      });
  if (!all || !IsConnected(group)) return;
  const Trainer& first = *group.members.front().trainer;
  int64_t epoch = first.order().epoch;
  int64_t order = first.order().save_order;
  for (Member& member : group.members) {
    const Trainer& trainer = *member.trainer;
    if (trainer.step() != first.step()) {
      world_.trace.Fail("ranks of ", first.id().job.value(), " g", first.id().generation.value(),
                        " exchange gradients of steps ", first.step(), " and ", trainer.step());
    }
    epoch = std::min(epoch, trainer.order().epoch);
    order = std::min(order, trainer.order().save_order);
    member.waits = false;
  }
  const bool begins = !std::exchange(group.met, true);
  if (!begins) world_.observer->OnExchange(first);
  group.epoch = std::max(group.epoch, epoch);
  const bool saves = !begins && order > group.answered_order;
  if (saves) group.answered_order = order;
  for (const Member& member : group.members) {
    Trainer* const trainer = member.trainer.get();
    trainer->Later(random_.Between(100, 3000),
                   [trainer, begins, epoch = group.epoch, order = saves ? order : 0] {
                     begins ? trainer->Met(epoch) : trainer->CompleteStep(epoch, order);
                   });
  }
}

void Training::OnEnd(const Trainer& trainer, bool reset) {
  const auto found = groups_.find({trainer.id().job, trainer.id().generation});
  if (found == groups_.end() || !reset) return;
  Group& group = found->second;
  const bool joined =
      std::any_of(group.members.begin(), group.members.end(),
                  [&](const Member& member) { return member.trainer.get() == &trainer; });
  if (!joined) return;
  for (size_t m = 0; m < group.members.size(); ++m) {
    const Member& member = group.members[m];
    if (!member.waits || !member.trainer->is_alive()) continue;
    if (world_.network->DataIsCut(member.trainer->node().index(), trainer.node().index())) continue;
    Fail(group, m, random_.Between(1, 30) * kMilli, "a peer is gone");
  }
}

void Training::OnMended() {
  for (auto& [key, group] : groups_) TryExchange(group);
}

}  // namespace paceline::sim
