#include "tests/sim/training.h"

#include <algorithm>

#include "tests/sim/observer.h"
#include "tests/sim/sim_node.h"

namespace paceline::sim {

uint64_t Training::LayoutOf(int rank, size_t ranks) {
  return 1000 * ranks + static_cast<uint64_t>(rank);
}

Training::Group& Training::GroupOf(const TrainerPtr& trainer) {
  const TrainerOrder& order = trainer->order();
  Group& group = groups_[{trainer->id().job, order.generation}];
  group.job = trainer->id().job;
  group.generation = order.generation;
  group.lanes = Lanes{order.shards};
  group.members.resize(static_cast<size_t>(order.world_size));
  return group;
}

Training::Group& Training::Enter(const TrainerPtr& trainer, size_t* m) {
  const TrainerOrder& order = trainer->order();
  Group& group = GroupOf(trainer);
  *m = static_cast<size_t>(order.rank);
  Member& member = group.members[*m];
  if (member.trainer != nullptr && member.trainer != trainer && member.trainer->is_alive()) {
    world_.trace.Fail(member.trainer->name(), " and ", trainer->name(), " are both rank ",
                      order.rank, " of generation ", order.generation);
  }
  member.trainer = trainer;
  member.copies = order.copies;
  return group;
}

void Training::Connect(const TrainerPtr& trainer) {
  size_t m = 0;
  Group& group = Enter(trainer, &m);
  const int64_t generation = group.generation;
  trainer->Later(trainer->facts().collective_timeout, [t = trainer.get(), &group, generation] {
    if (!group.connected) t->OnConnected(generation, false);
  });
  TryConnect(group);
  TryExchange(group);
}

void Training::RunRendezvous(const TrainerPtr& trainer) {
  size_t m = 0;
  Group& group = Enter(trainer, &m);
  TryConnect(group);
  if (!AwaitHandOver(group, m)) Wait(group, m);
}

void Training::Arrive(const TrainerPtr& trainer) {
  size_t m = 0;
  Group* group = Find(*trainer, &m);
  WaitIn(*group, m, Collective::kGradients);
}

Training::Group* Training::Find(const Trainer& trainer, size_t* m) {
  const auto found = groups_.find({trainer.id().job, trainer.present()});
  if (found == groups_.end()) return nullptr;
  auto& members = found->second.members;
  for (*m = 0; *m < members.size(); ++*m) {
    if (members[*m].trainer.get() == &trainer) return &found->second;
  }
  return nullptr;
}

int Training::RankIn(const Trainer& trainer, int64_t generation) const {
  const auto found = groups_.find({trainer.id().job, generation});
  if (found == groups_.end()) return -1;
  const auto& members = found->second.members;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].trainer.get() == &trainer) return static_cast<int>(m);
  }
  return -1;
}

void Training::TryConnect(Group& group) {
  if (group.connected) return;
  const bool all = std::all_of(group.members.begin(), group.members.end(), [](const Member& m) {
    return m.trainer != nullptr && m.trainer->is_alive() && !m.out;
  });
  if (!all || !IsConnected(group)) return;
  group.connected = true;
  for (const Member& member : group.members) {
    Trainer* const trainer = member.trainer.get();
    trainer->Later(random_.Between(1, 30) * kMilli, [trainer, generation = group.generation] {
      trainer->OnConnected(generation, true);
    });
  }
  TryPairs(group);
}

void Training::Wait(Group& group, size_t m) {
  Member& member = group.members[m];
  member.waits = true;
  ++member.wait;
  const bool gone = std::any_of(group.members.begin(), group.members.end(), [](const Member& peer) {
    return peer.trainer != nullptr && (peer.out || !peer.trainer->is_alive());
  });
  if (gone) Fail(group, m, random_.Between(1, 30) * kMilli, "a peer is gone");
  Fail(group, m, member.trainer->facts().collective_timeout, "timed out");
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
  const bool sharded = group.lanes.shards > 1;
  if (sharded && group.stage == Group::Stage::kTraining) return TryShare(group);
  const bool all = std::all_of(group.members.begin(), group.members.end(), [](const Member& m) {
    return m.trainer != nullptr && !m.out && m.waits && m.trainer->is_alive();
  });
  if (!all || !IsConnected(group)) return;
  for (Member& member : group.members) {
    member.waits = false;
    ++member.wait;
  }
  switch (group.stage) {
    case Group::Stage::kRendezvous:
      if (EnterCopies(group)) return GoBack(group);
      return sharded ? DecideSharded(group) : Decide(group);
    case Group::Stage::kGoingBack:
      return DecideSharded(group);
    case Group::Stage::kTransfer:
      if (sharded) return Meet(group);
      group.stage = Group::Stage::kTraining;
      world_.observer->OnRendezvousDone(group.generation, TrainersOf(group), group.position);
      for (const Member& member : group.members) {
        Trainer* const trainer = member.trainer.get();
        trainer->Later(
            random_.Between(100, 3000),
            [trainer, position = group.position, plan = group.plan, generation = group.generation] {
              if (trainer->present() == generation) trainer->RendezvousDone(position, plan);
            });
      }
      return;
    case Group::Stage::kTraining:
      return Exchange(group);
  }
}

// Makes the real decision for ranks that all share their gradients: afterwards all are at one step.
void Training::Decide(Group& group) {
  std::vector<RankPosition> reported;
  std::vector<uint64_t> layouts;
  for (const Member& member : group.members) {
    const Trainer& trainer = *member.trainer;
    reported.push_back(PositionOf(trainer));
    layouts.push_back(LayoutOf(static_cast<int>(layouts.size()), group.members.size()));
  }
  group.plan = PlanOf(group, /*latest=*/true);
  const RendezvousDecision decision = DecideRendezvous(reported, layouts, {});
  group.position = decision.positions.front().step;
  for (size_t m = 0; m < group.members.size(); ++m) {
    if (decision.positions[m].step == group.position && group.position >= 0) continue;
    world_.trace.Fail(group.members[m].trainer->name(), " goes on at step ",
                      decision.positions[m].step, ", and ", group.members.front().trainer->name(),
                      " at step ", group.position);
  }
  const bool transfers = !decision.transfers.empty();
  group.stage = Group::Stage::kTransfer;
  for (size_t m = 0; m < group.members.size(); ++m) {
    group.members[m].trainer->Later(transfers ? random_.Between(1 * kMilli, kTransfer) : 200,
                                    [this, &group, m] {
                                      if (!group.members[m].out) Wait(group, m);
                                    });
  }
}

RankPosition Training::PositionOf(const Trainer& trainer) const {
  RankPosition position;
  const RankPosition& taken = trainer.taken();
  position.generation = taken.generation > 0 ? taken.generation : trainer.trained_generation();
  position.step = trainer.has_state() ? trainer.step() : -1;
  position.computed = trainer.has_computed();
  const auto trained = groups_.find({trainer.id().job, position.generation});
  if (trained == groups_.end()) return position;
  const size_t ranks = trained->second.members.size();
  position.rank = taken.generation > 0 ? taken.rank : RankIn(trainer, position.generation);
  position.gradients = {0, static_cast<int>(ranks)};
  position.layout = LayoutOf(position.rank, ranks);
  return position;
}

std::vector<const Trainer*> Training::TrainersOf(const Group& group) {
  std::vector<const Trainer*> trainers;
  trainers.reserve(group.members.size());
  for (const Member& member : group.members) trainers.push_back(member.trainer.get());
  return trainers;
}

TakenPlan Training::PlanOf(const Group& group, bool latest) {
  TakenPlan plan;
  for (const Member& member : group.members) {
    const TrainerOrder& order = member.trainer->order();
    const bool is_first = &member == &group.members.front();
    if (is_first || (latest ? order.version > plan.version : order.version < plan.version)) {
      plan = {order.version, order.waits_less};
    }
  }
  return plan;
}

bool Training::PlanFails(int64_t version) const {
  const Settings& settings = world_.settings;
  Random random(settings.straggler_seed + 3000 + static_cast<uint64_t>(version));
  return settings.plan_fails > 0 && random.Chance(settings.plan_fails);
}

void Training::Exchange(Group& group) {
  const Trainer& first = *group.members.front().trainer;
  for (const Member& member : group.members) {
    const Trainer& trainer = *member.trainer;
    if (trainer.step() != first.step()) {
      world_.trace.Fail(first.name(), " and ", trainer.name(), " exchange gradients of steps ",
                        first.step(), " and ", trainer.step());
    }
  }
  const Agreed agreed = Agree(group);
  world_.observer->OnExchange(group.generation, TrainersOf(group));
  for (const Member& member : group.members) {
    Trainer* const trainer = member.trainer.get();
    trainer->Later(random_.Between(100, 3000), [trainer, agreed, generation = group.generation] {
      if (trainer->present() != generation) return;
      trainer->CompleteStep(agreed.plan, agreed.save_order, agreed.leaves);
    });
  }
}

Training::Agreed Training::Agree(Group& group) {
  Agreed agreed;
  int64_t order = group.members.front().trainer->order().save_order;
  for (const Member& member : group.members) {
    const Trainer& trainer = *member.trainer;
    order = std::min(order, trainer.order().save_order);
    agreed.leaves = agreed.leaves && trainer.agrees();
  }
  if (agreed.leaves) CheckMeanBeforeLeaving(group);
  const TakenPlan plan = PlanOf(group, /*latest=*/false);
  if (plan.version > group.plan.version && PlanFails(plan.version)) {
    group.members.front().trainer->FailPlan(plan.version);
  } else if (plan.version > group.plan.version) {
    group.plan = plan;
  }
  if (order > group.answered_order) agreed.save_order = group.answered_order = order;
  agreed.plan = group.plan;
  return agreed;
}

void Training::CheckMeanBeforeLeaving(const Group& group) {
  const Trainer& first = *group.members.front().trainer;
  if (first.order().averages_first) world_.coverage.Count("planned: a mean before ranks leave");
  for (const Member& member : group.members) {
    const Trainer& trainer = *member.trainer;
    const TrainerOrder& order = trainer.order();
    if (order.generation == first.order().generation &&
        order.averages_first != first.order().averages_first) {
      world_.trace.Fail("only one of ", first.name(), " and ", trainer.name(),
                        " waits for a mean of all before they leave for generation ",
                        order.generation);
    }
    const bool leaves = order.rank < 0 && order.hand_over < 0;
    const bool may_lose = order.averages_first || order.mean_failed;
    if (leaves && trainer.facts().mean_period > 0 && !may_lose) {
      world_.trace.Fail(trainer.name(), " leaves with what it has learnt since the latest mean");
    }
  }
}

void Training::Sever(const Trainer& trainer) {
  size_t m = 0;
  Group* group = Find(trainer, &m);
  if (group == nullptr) return;
  group->members[m].out = true;
  group->members[m].waits = false;
  OnEnd(trainer, true);
}

void Training::OnEnd(const Trainer& trainer, bool reset) {
  if (!reset) return;
  for (auto i = groups_.lower_bound({trainer.id().job, 0});
       i != groups_.end() && i->first.first == trainer.id().job; ++i) {
    Group& group = i->second;
    for (const auto& [rank, pair] : group.pairs) {
      if (pair.leaver.get() != &trainer) continue;
      FailPair(group, rank, random_.Between(1, 30) * kMilli, "a peer is gone");
    }
    const bool joined =
        std::any_of(group.members.begin(), group.members.end(), [&](const Member& member) {
          return member.trainer.get() == &trainer && (member.out || !trainer.is_alive());
        });
    if (!joined) continue;
    for (size_t m = 0; m < group.members.size(); ++m) {
      const Member& member = group.members[m];
      if (member.trainer == nullptr || !member.waits || !member.trainer->is_alive()) continue;
      if (world_.network->DataIsCut(member.trainer->node().index(), trainer.node().index())) {
        continue;
      }
      Fail(group, m, random_.Between(1, 30) * kMilli, "a peer is gone");
    }
  }
}

void Training::OnMended() {
  for (auto& [key, group] : groups_) {
    TryConnect(group);
    TryPairs(group);
    TryExchange(group);
  }
}

}  // namespace paceline::sim
