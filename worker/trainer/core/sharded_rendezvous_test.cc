#include "worker/trainer/core/sharded_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using What = Transfer::What;

constexpr int64_t kStep = 5;

// How far a rank of a step, or of an exchange, was when it was cut off.
enum class Cut { kLost, kNotWithin, kPrepared, kApplied, kEnd };

// A rank that trained last in generation 1, and shares gradients with the replicas [first, end).
RankPosition At(int rank, int shards, int first, int end) {
  RankPosition position;
  position.generation = position.decided = 1;
  position.step = kStep;
  position.rank = position.decided_rank = rank;
  position.gradients = {first * shards, (end - first) * shards};
  position.layout = static_cast<uint64_t>(rank);
  return position;
}

std::vector<uint64_t> SameLayouts(size_t ranks) {
  std::vector<uint64_t> layouts;
  for (size_t rank = 0; rank < ranks; ++rank) layouts.push_back(rank);
  return layouts;
}

absl::StatusOr<RendezvousDecision> Decide(const std::vector<RankPosition>& reported, int shards,
                                          const std::vector<std::vector<int>>& groups = {}) {
  return DecideShardedRendezvous(reported, SameLayouts(reported.size()), groups, shards);
}

std::vector<int64_t> Steps(const RendezvousDecision& decision) {
  std::vector<int64_t> steps;
  for (const RankPosition& one : decision.positions) steps.push_back(one.step);
  return steps;
}

// All assignments of a Cut to each of `ranks` ranks.
template <typename Visit>
void ForAllCuts(int ranks, Visit visit) {
  std::vector<Cut> cuts(static_cast<size_t>(ranks), Cut::kLost);
  while (true) {
    visit(cuts);
    size_t i = 0;
    while (i < cuts.size()) {
      cuts[i] = static_cast<Cut>(static_cast<int>(cuts[i]) + 1);
      if (cuts[i] != Cut::kEnd) break;
      cuts[i++] = Cut::kLost;
    }
    if (i == cuts.size()) return;
  }
}

bool Has(const std::vector<Cut>& cuts, Cut wanted) {
  return std::find(cuts.begin(), cuts.end(), wanted) != cuts.end();
}

std::string Text(const std::vector<Cut>& cuts) {
  std::string text;
  for (const Cut cut : cuts) text += "LNPA"[static_cast<int>(cut)];
  return text;
}

// What a rank's memory has while the transfers of a decision are made.
struct Memory {
  int position = 0;
  int trajectory = -1;  // The replica whose training it is of; -1: nothing.
  int64_t step = -1;
  bool prepared = false;
};

// Makes the transfers as trainers do. A rule that is broken fails the test.
void Make(const std::vector<Transfer>& transfers, std::vector<Memory>* ranks) {
  for (const Transfer& one : transfers) {
    const Memory from = (*ranks)[static_cast<size_t>(one.from)];
    Memory& to = (*ranks)[static_cast<size_t>(one.to)];
    if (one.what == What::kAll) {
      ASSERT_EQ(from.position, to.position) << one.from << " to " << one.to;
      ASSERT_GE(from.trajectory, 0) << one.from << " has nothing for " << one.to;
      to = from;
      continue;
    }
    ASSERT_EQ(one.what, What::kOwnStep);
    ASSERT_TRUE(to.prepared) << one.to;
    to.prepared = false;
    ++to.step;
  }
}

class AllCutsTest : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  int replicas() const { return GetParam().first; }
  int shards() const { return GetParam().second; }
  int ranks() const { return replicas() * shards(); }

  // Those of a step that all ranks, or (`alone`) those of one replica share.
  std::vector<RankPosition> Report(const std::vector<Cut>& cuts, bool alone) const {
    std::vector<RankPosition> reported;
    for (int rank = 0; rank < ranks(); ++rank) {
      const int replica = rank / shards();
      RankPosition one =
          alone ? At(rank, shards(), replica, replica + 1) : At(rank, shards(), 0, replicas());
      const Cut cut = cuts[static_cast<size_t>(rank)];
      one.computed = one.prepared = cut == Cut::kPrepared;
      if (cut == Cut::kApplied) ++one.step;
      if (cut == Cut::kLost) one = RankPosition();
      reported.push_back(one);
    }
    return reported;
  }

  std::vector<Memory> MemoryOf(const std::vector<RankPosition>& reported) const {
    std::vector<Memory> memory;
    for (int rank = 0; rank < ranks(); ++rank) {
      const RankPosition& one = reported[static_cast<size_t>(rank)];
      const bool has = one.generation > 0;
      memory.push_back({rank % shards(), has ? rank / shards() : -1, one.step, one.prepared});
    }
    return memory;
  }

  // The first position that all replicas have lost; -1: none.
  int LostPosition(const std::vector<Cut>& cuts) const {
    for (int position = 0; position < shards(); ++position) {
      bool held = false;
      for (int replica = 0; replica < replicas(); ++replica) {
        held = held || cuts[static_cast<size_t>(replica * shards() + position)] != Cut::kLost;
      }
      if (!held) return position;
    }
    return -1;
  }
};

// With ddp all ranks share a step.
TEST_P(AllCutsTest, AfterAStepOfAllEachRankHasItsPartOfOneStep) {
  ForAllCuts(ranks(), [&](const std::vector<Cut>& cuts) {
    // Nobody applies a step for which some rank was not prepared.
    if (Has(cuts, Cut::kApplied) && Has(cuts, Cut::kNotWithin)) return;
    if (std::count(cuts.begin(), cuts.end(), Cut::kLost) == ranks()) return;
    SCOPED_TRACE(Text(cuts));
    const std::vector<RankPosition> reported = Report(cuts, /*alone=*/false);
    const absl::StatusOr<RendezvousDecision> decision = Decide(reported, shards());
    const int lost = LostPosition(cuts);
    if (lost >= 0) {
      ASSERT_FALSE(decision.ok());
      ASSERT_THAT(std::string(decision.status().message()),
                  HasSubstr("position " + std::to_string(lost) + " has no holder"));
      return;
    }
    ASSERT_TRUE(decision.ok()) << decision.status();
    ASSERT_FALSE(decision->begins);
    ASSERT_TRUE(decision->same_groups);
    const int64_t step = Has(cuts, Cut::kApplied) ? kStep + 1 : kStep;
    ASSERT_EQ(Steps(*decision), std::vector<int64_t>(cuts.size(), step));
    std::vector<Memory> memory = MemoryOf(reported);
    Make(decision->transfers, &memory);
    for (const Memory& one : memory) {
      ASSERT_GE(one.trajectory, 0);
      ASSERT_EQ(one.step, step);
    }
    // Nothing travels to a rank that has a state.
    const int64_t copies =
        std::count_if(decision->transfers.begin(), decision->transfers.end(),
                      [](const Transfer& one) { return one.what == What::kAll; });
    ASSERT_EQ(copies, std::count(cuts.begin(), cuts.end(), Cut::kLost));
    for (const RankPosition& one : decision->positions) {
      ASSERT_FALSE(one.computed || one.prepared || one.mean_prepared);
    }
  });
}

// With hsgd a step is one replica's alone, and a part of one's state is none of another's.
TEST_P(AllCutsTest, AfterStepsOfTheirOwnEachReplicaHasOneState) {
  ForAllCuts(ranks(), [&](const std::vector<Cut>& cuts) {
    bool any_whole = false;
    for (int replica = 0; replica < replicas(); ++replica) {
      const std::vector<Cut> own(cuts.begin() + replica * shards(),
                                 cuts.begin() + (replica + 1) * shards());
      if (Has(own, Cut::kApplied) && Has(own, Cut::kNotWithin)) return;
      any_whole = any_whole || !Has(own, Cut::kLost);
    }
    if (std::count(cuts.begin(), cuts.end(), Cut::kLost) == ranks()) return;
    SCOPED_TRACE(Text(cuts));
    const std::vector<RankPosition> reported = Report(cuts, /*alone=*/true);
    const absl::StatusOr<RendezvousDecision> decision = Decide(reported, shards(), {{replicas()}});
    ASSERT_EQ(decision.ok(), any_whole) << decision.status();
    if (!any_whole) return;
    std::vector<Memory> memory = MemoryOf(reported);
    Make(decision->transfers, &memory);
    for (int rank = 0; rank < ranks(); ++rank) {
      const Memory& first = memory[static_cast<size_t>(rank - rank % shards())];
      const Memory& one = memory[static_cast<size_t>(rank)];
      ASSERT_GE(one.trajectory, 0);
      ASSERT_EQ(one.trajectory, first.trajectory);
      ASSERT_EQ(one.step, first.step);
      ASSERT_EQ(one.step, decision->positions[static_cast<size_t>(rank)].step);
    }
  });
}

// After a step that all have done, in the exchange of all.
TEST_P(AllCutsTest, AMeanThatOneHasAppliedAllApply) {
  ForAllCuts(ranks(), [&](const std::vector<Cut>& cuts) {
    if (Has(cuts, Cut::kApplied) && Has(cuts, Cut::kNotWithin)) return;
    if (Has(cuts, Cut::kLost)) return;
    SCOPED_TRACE(Text(cuts));
    std::vector<RankPosition> reported;
    for (int rank = 0; rank < ranks(); ++rank) {
      const int replica = rank / shards();
      RankPosition one = At(rank, shards(), replica, replica + 1);
      const Cut cut = cuts[static_cast<size_t>(rank)];
      one.exchanged = cut == Cut::kApplied;
      one.mean_prepared = cut == Cut::kPrepared;
      one.exchange = {0, ranks()};
      // A replica that got through has gone on.
      const auto first = cuts.begin() + replica * shards();
      if (std::count(first, first + shards(), Cut::kApplied) == shards()) one.step += 2;
      reported.push_back(one);
    }
    const absl::StatusOr<RendezvousDecision> decision = Decide(reported, shards(), {{replicas()}});
    ASSERT_TRUE(decision.ok()) << decision.status();
    const bool through = Has(cuts, Cut::kApplied);
    int64_t own = 0;
    for (const Transfer& one : decision->transfers) {
      ASSERT_EQ(one.what, What::kOwnMean);
      ASSERT_EQ(cuts[static_cast<size_t>(one.to)], Cut::kPrepared);
      ++own;
    }
    ASSERT_EQ(own, through ? std::count(cuts.begin(), cuts.end(), Cut::kPrepared) : 0);
    for (const RankPosition& one : decision->positions) {
      ASSERT_EQ(one.exchanged, through);
      ASSERT_FALSE(one.mean_prepared);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(ReplicasAndShards, AllCutsTest,
                         testing::Values(std::pair(1, 1), std::pair(1, 2), std::pair(2, 1),
                                         std::pair(1, 3), std::pair(3, 1), std::pair(2, 2),
                                         std::pair(2, 3), std::pair(3, 2), std::pair(3, 3)),
                         [](const auto& info) {
                           return std::to_string(info.param.first) + "x" +
                                  std::to_string(info.param.second);
                         });

std::vector<RankPosition> AllAt(int replicas, int shards) {
  std::vector<RankPosition> all;
  for (int rank = 0; rank < replicas * shards; ++rank) {
    all.push_back(At(rank, shards, 0, replicas));
  }
  return all;
}

TEST(ShardedRendezvousTest, RanksThatHaveNotTrainedBegin) {
  std::vector<RankPosition> reported(4);
  for (RankPosition& one : reported) one.step = 70;  // From a checkpoint.
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_TRUE(decision->begins);
  EXPECT_THAT(decision->transfers, IsEmpty());
}

TEST(ShardedRendezvousTest, ASpareAtTheBeginningGetsItsPartOfWhatWasRestored) {
  std::vector<RankPosition> reported(4);
  for (const size_t rank : {0, 1, 2}) reported[rank].step = 70;
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_FALSE(decision->begins);
  EXPECT_THAT(decision->transfers, ElementsAre(Transfer{What::kAll, 1, 3}));
}

// Rank 0 has begun to train, and nobody else has got to know.
TEST(ShardedRendezvousTest, ABeginningThatWasCutOffNeedsNoTrainedHolderOfEachPosition) {
  std::vector<RankPosition> reported(4);
  for (RankPosition& one : reported) one.step = 0;
  reported[0] = At(0, 2, 0, 2);
  reported[0].step = 0;
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_FALSE(decision->begins);
  EXPECT_THAT(decision->transfers,
              ElementsAre(Transfer{What::kAll, 0, 2}, Transfer{What::kAll, 1, 3}));
}

// A survivor of replica 1 holds what position 0 of replica 0 lost, and fills that hole itself.
TEST(ShardedRendezvousTest, WhoMovesToAnotherReplicaAtItsPositionNeedsNothing) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  reported[0] = reported[2];
  reported.resize(2);
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers, IsEmpty());
  EXPECT_THAT(Steps(*decision), ElementsAre(kStep, kStep));
}

TEST(ShardedRendezvousTest, ALostReplicaIsCopiedPositionByPositionAndSourcesAreSpread) {
  std::vector<RankPosition> reported = AllAt(3, 2);
  reported[1] = reported[4] = reported[5] = RankPosition();
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers,
              ElementsAre(Transfer{What::kAll, 3, 1}, Transfer{What::kAll, 0, 4},
                          Transfer{What::kAll, 1, 5}));
}

TEST(ShardedRendezvousTest, WithHsgdAReplicaOfTwoTrajectoriesCopiesItsGroup) {
  std::vector<RankPosition> reported = AllAt(4, 2);
  for (int rank = 0; rank < 8; ++rank) {
    reported[static_cast<size_t>(rank)].gradients = {rank / 2 * 2, 2};
    if (rank >= 4) reported[static_cast<size_t>(rank)].step = kStep + 3;
  }
  reported[3] = reported[5];  // In the place of one that was lost.
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2, {{2, 2}, {4}});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers,
              ElementsAre(Transfer{What::kAll, 0, 2}, Transfer{What::kAll, 1, 3}));
}

TEST(ShardedRendezvousTest, AReplicaOfAGroupOfGradientsGetsOnlyWhatItMisses) {
  std::vector<RankPosition> reported = AllAt(4, 2);
  for (int rank = 0; rank < 8; ++rank) {
    reported[static_cast<size_t>(rank)].gradients = {rank / 4 * 4, 4};
    if (rank >= 4) reported[static_cast<size_t>(rank)].step = kStep + 3;
  }
  reported[3] = RankPosition();
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2, {{4}, {2, 2}});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers, ElementsAre(Transfer{What::kAll, 1, 3}));
}

TEST(ShardedRendezvousTest, AfterItsOwnStepARankMakesTheExchangeThatFollows) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  for (RankPosition& one : reported) {
    one.gradients = {one.rank / 2 * 2, 2};
    one.exchange = {0, 4};
  }
  reported[0].computed = reported[0].prepared = true;
  reported[1].step = kStep + 1;
  reported[1].exchanged = false;
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2, {{2}});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers, ElementsAre(Transfer{What::kOwnStep, 1, 0}));
  EXPECT_FALSE(decision->positions[0].exchanged);
  EXPECT_FALSE(decision->positions[1].exchanged);
  EXPECT_TRUE(decision->positions[2].exchanged);
}

// Rank 1 went back at a rendezvous that was cut off, and at which rank 3, who had applied the step,
// was not. Rank 0 was there, and did not come to carry the decision out.
TEST(ShardedRendezvousTest, WhoAppliedAStepThatOthersHaveTakenBackHasNoState) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  reported[0].computed = reported[0].prepared = true;
  reported[1].decided = 2;
  reported[2] = RankPosition();
  reported[3].step = kStep + 1;
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers,
              ElementsAre(Transfer{What::kAll, 0, 2}, Transfer{What::kAll, 1, 3}));
  EXPECT_THAT(Steps(*decision), ElementsAre(kStep, kStep, kStep, kStep));
}

// Rank 1 applied its own update at a rendezvous that was cut off, in which rank 0 did not.
TEST(ShardedRendezvousTest, WhoHasAppliedItsOwnUpdateIsAProofForOthers) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  for (const size_t rank : {0, 2, 3}) reported[rank].computed = reported[rank].prepared = true;
  reported[1].step = kStep + 1;
  reported[1].decided = 2;
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers,
              ElementsAre(Transfer{What::kOwnStep, 1, 0}, Transfer{What::kOwnStep, 1, 2},
                          Transfer{What::kOwnStep, 1, 3}));
}

// Also one at the same step: it may have made that step with other ranks.
TEST(ShardedRendezvousTest, WhoMissedAWholeGenerationHasNoState) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  for (const size_t rank : {0, 1, 2}) reported[rank].generation = reported[rank].decided = 2;
  const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->transfers, ElementsAre(Transfer{What::kAll, 1, 3}));
}

TEST(ShardedRendezvousTest, WhoMissedTheEndOfARendezvousHasWhatTheOthersHave) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  for (RankPosition& one : reported) one.decided = 2;
  for (const size_t rank : {0, 1, 2}) reported[rank].generation = 2;
  for (const bool hsgd : {false, true}) {
    const std::vector<std::vector<int>> groups =
        hsgd ? std::vector<std::vector<int>>{{2}} : std::vector<std::vector<int>>();
    const absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2, groups);
    ASSERT_TRUE(decision.ok()) << decision.status();
    EXPECT_THAT(decision->transfers, IsEmpty());
  }
}

TEST(ShardedRendezvousTest, OtherGroupsMakeAllGoOnAlone) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  for (RankPosition& one : reported) one.gradients = {one.rank / 2 * 2, 2};
  reported[0].step = reported[1].step = kStep + 4;
  const absl::StatusOr<RendezvousDecision> decision =
      DecideShardedRendezvous(reported, {7, 8, 9, 10}, {{2}}, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_FALSE(decision->same_groups);
  EXPECT_THAT(decision->transfers, IsEmpty());
  for (const RankPosition& one : decision->positions) EXPECT_EQ(one.alone_below, kStep + 4);
}

TEST(ShardedRendezvousTest, AnEvaluationThatOneRankDidNotFinishIsRepeated) {
  std::vector<RankPosition> reported = AllAt(2, 2);
  for (const size_t rank : {0, 1, 2}) reported[rank].evaluated = kStep;
  absl::StatusOr<RendezvousDecision> decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  for (const RankPosition& one : decision->positions) EXPECT_NE(one.evaluated, kStep);
  reported[3].evaluated = kStep;
  decision = Decide(reported, 2);
  ASSERT_TRUE(decision.ok()) << decision.status();
  for (const RankPosition& one : decision->positions) EXPECT_EQ(one.evaluated, kStep);
}

TEST(ShardedRendezvousTest, RefusesRanksThatAreNoWholeReplicas) {
  EXPECT_EQ(Decide(std::vector<RankPosition>(5), 2).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline
