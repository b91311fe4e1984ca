// Trainers that leave, and hand their states over to those that take their ranks
// (worker/trainer/generation/hand_over.h).
#include <string>
#include <utility>

#include "tests/sim/network.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/training.h"

namespace paceline::sim {

void Training::ConnectHandOver(const TrainerPtr& leaver) {
  Group& group = GroupOf(leaver);
  const int rank = leaver->order().hand_over;
  group.pairs[rank].leaver = leaver;
  leaver->Later(leaver->facts().collective_timeout,
                [t = leaver.get(), &group, rank, generation = group.generation] {
                  if (!group.pairs[rank].connected) t->OnConnected(generation, false);
                });
  TryPairs(group);
}

bool Training::AwaitHandOver(Group& group, size_t m) {
  const TrainerPtr& trainer = group.members[m].trainer;
  const int rank = static_cast<int>(m);
  if (trainer->order().hand_over != rank) return false;
  group.pairs[rank].newcomer = trainer;
  FailPair(group, rank, trainer->facts().collective_timeout, "timed out");
  TryPairs(group);
  return true;
}

// The newcomer connects to the one that leaves when it is connected to the other members.
void Training::TryPairs(Group& group) {
  if (!group.connected) return;
  for (auto& [rank, pair] : group.pairs) {
    if (pair.connected || pair.over || pair.leaver == nullptr || pair.newcomer == nullptr) continue;
    if (!pair.leaver->is_alive() || !pair.newcomer->is_alive()) continue;
    if (world_.network->DataIsCut(pair.leaver->node().index(), pair.newcomer->node().index())) {
      continue;
    }
    pair.connected = true;
    Trainer* const leaver = pair.leaver.get();
    leaver->Later(random_.Between(1, 30) * kMilli, [leaver, generation = group.generation] {
      leaver->OnConnected(generation, true);
    });
  }
}

void Training::FailPair(Group& group, int rank, Micros delay, const std::string& why) {
  const TrainerPtr newcomer = group.pairs[rank].newcomer;
  if (newcomer == nullptr) return;
  newcomer->Later(delay, [&group, rank, newcomer, why] {
    Pair& pair = group.pairs[rank];
    if (std::exchange(pair.over, true) || newcomer->present() != group.generation) return;
    newcomer->OnCollectiveError(why);
  });
}

void Training::HandOver(const TrainerPtr& leaver) {
  Group& group = GroupOf(leaver);
  const int rank = leaver->order().hand_over;
  Pair& pair = group.pairs[rank];
  if (!pair.connected || pair.over || pair.newcomer == nullptr) return;
  RankPosition at;
  at.generation = leaver->trained_generation();
  at.rank = RankIn(*leaver, at.generation);
  const Micros delay = random_.Between(1 * kMilli, kTransfer);
  const auto newcomer_waits = [&group, newcomer = pair.newcomer, rank] {
    return !group.pairs[rank].over && newcomer->present() == group.generation;
  };
  if (group.lanes.shards > 1) {
    pair.newcomer->Later(delay / 2, [newcomer_waits, newcomer = pair.newcomer, at] {
      if (newcomer_waits()) newcomer->GiveUpState(at.generation);
    });
  }
  pair.newcomer->Later(delay, [this, &group, newcomer_waits, leaver, rank, at] {
    Pair& pair = group.pairs[rank];
    if (!newcomer_waits()) return;
    const bool is_cut =
        world_.network->DataIsCut(leaver->node().index(), pair.newcomer->node().index());
    if (!leaver->is_alive() || is_cut) return;  // It fails, or its wait ends.
    pair.over = true;
    pair.newcomer->TakeOver(*leaver, at);
    world_.coverage.Count("state handed over");
    Wait(group, static_cast<size_t>(rank));
  });
}

}  // namespace paceline::sim
