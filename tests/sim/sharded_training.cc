// Trainings of sharded models. What ranks share, they first prepare; when all have given their word
// that they are prepared, each applies it. They share the steps; with means of parameters each
// replica makes its steps by itself, and all ranks share the means.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/sim/observer.h"
#include "tests/sim/replica_judge.h"
#include "tests/sim/training.h"
#include "worker/trainer/core/sharded_rendezvous.h"

namespace paceline::sim {
namespace {

// Longest time until a rank has a result, or the others' word: far longer than in the product, so
// that ranks are often cut off within.
constexpr Micros kLongest = 30 * kMilli;
constexpr Micros kLateWord = 500 * kMilli;

}  // namespace

// ---- Steps, and means of parameters.

void Training::AwaitMean(const TrainerPtr& trainer) {
  size_t m = 0;
  Group* group = Find(*trainer, &m);
  WaitIn(*group, m, Collective::kMean);
}

void Training::WaitIn(Group& group, size_t m, Collective collective) {
  group.members[m].collective = collective;
  Wait(group, m);
}

RankRange Training::SharersOf(const Group& group, size_t m, bool mean) {
  if (mean || group.members[m].trainer->facts().mean_period == 0) {
    return {0, static_cast<int>(group.members.size())};
  }
  const int replica = group.lanes.ReplicaOf(static_cast<int>(m));
  return {group.lanes.RankOf(replica, 0), group.lanes.shards};
}

void Training::TryShare(Group& group) {
  if (!IsConnected(group)) return;
  for (size_t m = 0; m < group.members.size(); ++m) {
    const Member& member = group.members[m];
    if (!member.waits) continue;
    const RankRange sharers = SharersOf(group, m, IsOfMean(member.collective));
    const auto first = group.members.begin() + sharers.first;
    const bool all = std::all_of(first, first + sharers.size, [&](const Member& peer) {
      return peer.waits && !peer.out && peer.collective == member.collective &&
             peer.trainer->is_alive();
    });
    if (all) Share(group, sharers);
  }
}

void Training::Share(Group& group, const RankRange& sharers) {
  const Collective shared = group.members[static_cast<size_t>(sharers.first)].collective;
  const bool mean = IsOfMean(shared);
  std::vector<size_t> ranks;
  std::vector<const Trainer*> trainers;
  for (int rank = sharers.first; rank < sharers.first + sharers.size; ++rank) {
    ranks.push_back(static_cast<size_t>(rank));
    Member& member = group.members[ranks.back()];
    member.waits = false;
    ++member.wait;
    trainers.push_back(member.trainer.get());
  }
  if (shared == Collective::kGradients || shared == Collective::kMean) {
    world_.replica_judge->OnShared(trainers, group.lanes, mean);
    // Otherwise the step is of one replica only.
    if (ranks.size() == group.members.size()) {
      world_.observer->OnExchange(group.generation, trainers);
    }
    const uint64_t result = ++results_;
    for (const size_t m : ranks) {
      group.members[m].trainer->Later(
          random_.Between(100, kLongest),
          [this, &group, m, mean, result] { Prepare(group, m, mean, result); });
    }
    return;
  }
  world_.replica_judge->OnWord(trainers, mean);
  // Replicas agree only where all are at the same step.
  Agreed agreed;
  if (mean || trainers.front()->facts().mean_period == 0) agreed = Agree(group);
  // Now and then some have it long before others, so that these are cut off without it.
  const Micros longest = random_.Chance(0.05) ? kLateWord : kLongest;
  for (const size_t m : ranks) {
    group.members[m].trainer->Later(random_.Between(100, longest), [this, &group, m, mean, agreed] {
      Apply(group, m, mean, agreed);
    });
  }
}

bool Training::TakesPart(const Group& group, size_t m) {
  const Member& member = group.members[m];
  return member.trainer->present() == group.generation && !member.trainer->is_ending();
}

void Training::Prepare(Group& group, size_t m, bool mean, uint64_t result) {
  if (!TakesPart(group, m)) return;
  const Member& member = group.members[m];
  member.trainer->Prepare(mean, result);
  if (member.out) return;
  WaitIn(group, m, mean ? Collective::kMeanWord : Collective::kWord);
}

void Training::Apply(Group& group, size_t m, bool mean, const Agreed& agreed) {
  if (!TakesPart(group, m)) return;
  Trainer& trainer = *group.members[m].trainer;
  world_.replica_judge->OnApplying(trainer, mean);
  if (mean) {
    trainer.ApplyMean();
  } else {
    trainer.ApplyStep();
    if (trainer.facts().mean_period > 0) return trainer.GoOn();
  }
  trainer.EndStep(agreed.plan, agreed.save_order, agreed.leaves);
}

// ---- Rendezvous.

// Makes the real decision, in which replicas that average their parameters are one group.
void Training::DecideSharded(Group& group) {
  std::vector<RankPosition> reported;
  std::vector<uint64_t> layouts;
  for (size_t m = 0; m < group.members.size(); ++m) {
    Trainer& trainer = *group.members[m].trainer;
    trainer.TakePosition(group.lanes.PositionOf(static_cast<int>(m)));
    reported.push_back(trainer.part().at);
    layouts.push_back(LayoutOf(static_cast<int>(m), group.members.size()));
  }
  group.plan = PlanOf(group, /*latest=*/true);
  std::vector<std::vector<int>> groups;
  if (group.members.front().trainer->facts().mean_period > 0) {
    groups.push_back({group.lanes.ReplicasIn(static_cast<int>(group.members.size()))});
  }
  absl::StatusOr<RendezvousDecision> decision =
      DecideShardedRendezvous(reported, layouts, groups, group.lanes.shards);
  if (!decision.ok()) {
    const std::string why(decision.status().message());
    world_.trace.Add(group.job.value(), " generation ", group.generation, ": ", why);
    world_.replica_judge->OnStateLost(group.job, group.generation, TrainersOf(group), why);
    for (const Member& member : group.members) member.trainer->FailRendezvous(why);
    return;
  }
  group.decision = *std::move(decision);
  group.stage = Group::Stage::kTransfer;
  for (size_t m = 0; m < group.members.size(); ++m) {
    group.members[m].trainer->Later(random_.Between(100, kLongest),
                                    [this, &group, m] { CarryOut(group, m); });
  }
  BreakTransfer(group);
}

void Training::BreakTransfer(const Group& group) {
  const auto& transfers = group.decision.transfers;
  const bool sends = std::any_of(transfers.begin(), transfers.end(), [](const Transfer& transfer) {
    return transfer.what == Transfer::What::kAll;
  });
  if (!sends || world_.time.now() >= world_.settings.quiet) return;
  if (!deaths_.Chance(world_.settings.transfer_deaths)) return;
  const auto dies =
      static_cast<size_t>(deaths_.Between(0, static_cast<int64_t>(group.members.size()) - 1));
  Trainer* const trainer = group.members[dies].trainer.get();
  trainer->Later(deaths_.Between(0, kTransfer), [this, trainer] {
    world_.trace.Add("kill -9 ", trainer->name(), " in a transfer");
    world_.replica_judge->Note("a member died in a transfer");
    trainer->CrashBy(9);
  });
}

bool Training::ApplyOwn(const Group& group, size_t m) {
  Trainer& trainer = *group.members[m].trainer;
  bool receives = false;
  for (const Transfer& transfer : group.decision.transfers) {
    if (transfer.to != static_cast<int>(m)) continue;
    switch (transfer.what) {
      case Transfer::What::kOwnStep:
        world_.replica_judge->OnApplying(trainer, /*mean=*/false);
        world_.replica_judge->Note("applied a step by itself");
        trainer.ApplyStep();
        break;
      case Transfer::What::kOwnMean:
        world_.replica_judge->OnApplying(trainer, /*mean=*/true);
        world_.replica_judge->Note("applied a mean by itself");
        trainer.ApplyMean();
        break;
      case Transfer::What::kAll:
        receives = true;
        break;
      case Transfer::What::kStep:
      case Transfer::What::kMean:
        world_.trace.Fail(trainer.name(), " is sent parameters, and not the whole state");
        break;
    }
  }
  return receives;
}

RankPosition Training::After(const Group& group, size_t m) {
  RankPosition after = group.decision.positions[m];
  after.decided = group.generation;
  after.decided_rank = static_cast<int>(m);
  if (!group.decision.same_groups) after.layout = 0;
  return after;
}

void Training::CarryOut(Group& group, size_t m) {
  if (group.members[m].out || !TakesPart(group, m)) return;
  Trainer& trainer = *group.members[m].trainer;
  const Micros delay =
      group.decision.transfers.empty() ? 200 : random_.Between(1 * kMilli, kTransfer);
  if (!group.decision.begins) {
    const bool receives = ApplyOwn(group, m);
    if (trainer.part().at.prepared) world_.replica_judge->Note("undid a prepared step");
    if (trainer.part().at.mean_prepared) world_.replica_judge->Note("undid a prepared mean");
    trainer.UndoStep();
    if (receives) {
      const bool has_begun = group.decision.positions[m].generation > 0;
      trainer.Later(delay / 2, [&group, m, decided = has_begun ? group.generation : 0] {
        const Member& member = group.members[m];
        if (!member.out && TakesPart(group, m)) member.trainer->GiveUpState(decided);
      });
    } else {
      trainer.CarryOut(After(group, m));
    }
  }
  trainer.Later(delay, [this, &group, m] {
    if (!group.members[m].out) Wait(group, m);
  });
}

std::vector<HeldPart> Training::MakeTransfers(const Group& group) {
  std::vector<HeldPart> held;
  for (size_t m = 0; m < group.members.size(); ++m) {
    const Trainer& trainer = *group.members[m].trainer;
    const ModelPart& part = trainer.part();
    held.push_back(
        {trainer.has_state(), static_cast<int>(m), part.position, trainer.step(), part.state});
  }
  for (const Transfer& transfer : group.decision.transfers) {
    if (transfer.what != Transfer::What::kAll) continue;
    const auto to = static_cast<size_t>(transfer.to);
    const HeldPart& from = held[static_cast<size_t>(transfer.from)];
    world_.replica_judge->OnTransfer(*group.members[to].trainer,
                                     group.lanes.PositionOf(transfer.to), from);
    held[to] = from;
  }
  return held;
}

ModelPart Training::PartOf(const Group& group, size_t m, const HeldPart& held) {
  const int rank = static_cast<int>(m);
  ModelPart part;
  part.position = group.lanes.PositionOf(rank);
  part.state = held.state;
  part.ranks = static_cast<int>(group.members.size());
  part.at = group.decision.begins ? group.members[m].trainer->part().at : After(group, m);
  part.at.Enter(group.generation);
  // What TrainLoop::Leave notes, as far as it stays the same.
  part.at.rank = rank;
  part.at.gradients = SharersOf(group, m, /*mean=*/false);
  part.at.peers = part.at.alone_below == 0 ? part.at.gradients : RankRange();
  part.at.layout = LayoutOf(rank, group.members.size());
  return part;
}

void Training::Meet(Group& group) {
  group.stage = Group::Stage::kTraining;
  const RendezvousDecision& decision = group.decision;
  const std::vector<const Trainer*> trainers = TrainersOf(group);
  const std::vector<HeldPart> held = MakeTransfers(group);
  world_.replica_judge->OnMet(trainers, group.lanes, held, decision.positions);
  // What all ranks have done.
  group.position =
      std::min_element(decision.positions.begin(), decision.positions.end(),
                       [](const RankPosition& a, const RankPosition& b) { return a.step < b.step; })
          ->step;
  for (const RankPosition& one : decision.positions) {
    group.furthest = std::max(group.furthest, one.step);
  }
  if (group.went_back) world_.observer->OnWentBack(group.job, group.position);
  world_.observer->OnRendezvousDone(group.generation, trainers, group.position);
  for (size_t m = 0; m < group.members.size(); ++m) {
    Trainer* const trainer = group.members[m].trainer.get();
    trainer->Later(random_.Between(100, 3000),
                   [trainer, plan = group.plan, part = PartOf(group, m, held[m]),
                    generation = group.generation] {
                     if (trainer->present() != generation) return;
                     trainer->RendezvousDone(part.at.step, plan, part);
                   });
  }
}

}  // namespace paceline::sim
