// Who counts as one with a state when ranks of a job with shards meet: those that come from another
// position do not, nor do those that have given up their states.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/core/sharded_rendezvous.h"

namespace paceline {
namespace {

using What = Transfer::What;

constexpr int64_t kStep = 5;
constexpr int kNobody = -1;  // A newcomer.

// By rank: the rank in which its trainer trained before, in generation 1.
using FormerRanks = std::vector<int>;

struct Shape {
  int replicas = 0;
  int shards = 0;
  bool with_means = false;  // Each replica makes steps by itself.

  int ranks() const { return replicas * shards; }
  std::vector<std::vector<int>> groups() const {
    if (!with_means) return {};
    return {{replicas}};
  }
};

RankPosition Reported(const Shape& shape, int former) {
  RankPosition position;
  if (former == kNobody) return position;
  position.generation = position.decided = 1;
  position.step = kStep;
  position.rank = position.decided_rank = former;
  const RankRange replica{former / shape.shards * shape.shards, shape.shards};
  position.gradients = position.peers = shape.with_means ? replica : RankRange{0, shape.ranks()};
  position.layout = 1;
  return position;
}

absl::StatusOr<RendezvousDecision> Decide(const Shape& shape,
                                          const std::vector<RankPosition>& reported) {
  return DecideShardedRendezvous(reported, std::vector<uint64_t>(reported.size(), 1),
                                 shape.groups(), shape.shards);
}

// Whether the rank has the part of the model that belongs to its position.
bool Holds(const Shape& shape, const FormerRanks& former, int rank) {
  const int before = former[static_cast<size_t>(rank)];
  return before != kNobody && before % shape.shards == rank % shape.shards;
}

// The former replica whose parts can make this one whole; kNobody: there is none.
int WholeAs(const Shape& shape, const FormerRanks& former, int replica) {
  int source = kNobody;
  std::vector<int> missing;
  for (int rank = replica * shape.shards; rank < (replica + 1) * shape.shards; ++rank) {
    if (!Holds(shape, former, rank)) {
      missing.push_back(rank);
      continue;
    }
    const int own = former[static_cast<size_t>(rank)] / shape.shards;
    if (source != kNobody && own != source) return kNobody;
    source = own;
  }
  const bool found =
      source != kNobody && std::all_of(missing.begin(), missing.end(), [&](int rank) {
        const int wanted = source * shape.shards + rank % shape.shards;
        for (int other = rank % shape.shards; other < shape.ranks(); other += shape.shards) {
          if (former[static_cast<size_t>(other)] == wanted) return true;
        }
        return false;
      });
  return found ? source : kNobody;
}

// Whether a state of the training can be put together.
bool CanGoOn(const Shape& shape, const FormerRanks& former) {
  if (shape.with_means) {
    for (int replica = 0; replica < shape.replicas; ++replica) {
      if (WholeAs(shape, former, replica) != kNobody) return true;
    }
    return false;
  }
  std::set<int> positions;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    if (Holds(shape, former, rank)) positions.insert(rank % shape.shards);
  }
  return static_cast<int>(positions.size()) == shape.shards;
}

// After the transfers each replica has the parts of one former one, of any with ddp.
void ExpectOneStateEach(const Shape& shape, FormerRanks ranks,
                        const std::vector<Transfer>& transfers) {
  for (const Transfer& one : transfers) {
    ASSERT_EQ(one.what, What::kAll);
    ASSERT_EQ(one.from % shape.shards, one.to % shape.shards);
    ASSERT_TRUE(Holds(shape, ranks, one.from)) << one.from << " has nothing for " << one.to;
    ranks[static_cast<size_t>(one.to)] = ranks[static_cast<size_t>(one.from)];
  }
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    ASSERT_TRUE(Holds(shape, ranks, rank)) << rank;
    if (!shape.with_means) continue;
    const int first = rank / shape.shards * shape.shards;
    ASSERT_EQ(ranks[static_cast<size_t>(rank)] / shape.shards,
              ranks[static_cast<size_t>(first)] / shape.shards);
  }
}

void Expect(const Shape& shape, const FormerRanks& former) {
  std::vector<RankPosition> reported;
  for (const int before : former) reported.push_back(Reported(shape, before));
  const absl::StatusOr<RendezvousDecision> decision = Decide(shape, reported);
  ASSERT_EQ(decision.ok(), CanGoOn(shape, former)) << decision.status();
  if (!decision.ok()) return;
  ASSERT_FALSE(decision->begins);
  ExpectOneStateEach(shape, former, decision->transfers);
}

// All ways in which survivors of generation 1 can be the ranks of the next one.
void ForAllSeatings(const Shape& shape, const std::function<void(const FormerRanks&)>& visit) {
  FormerRanks former;
  const std::function<void()> seat_next = [&] {
    if (static_cast<int>(former.size()) == shape.ranks()) return visit(former);
    for (int before = kNobody; before < shape.ranks(); ++before) {
      const bool is_taken = std::count(former.begin(), former.end(), before) > 0;
      if (is_taken && before != kNobody) continue;
      former.push_back(before);
      seat_next();
      former.pop_back();
    }
  };
  seat_next();
}

TEST(ShardedRendezvousHoldersTest, WhoComesFromAnotherPositionHasNoStateThere) {
  for (const Shape& shape : {Shape{2, 2, false}, Shape{2, 2, true}, Shape{3, 2, false},
                             Shape{3, 2, true}, Shape{2, 3, false}, Shape{2, 3, true}}) {
    ForAllSeatings(shape, [&](const FormerRanks& former) {
      if (testing::Test::HasFatalFailure()) return;
      // Somebody has trained: else it would be a beginning.
      if (std::count(former.begin(), former.end(), kNobody) == shape.ranks()) return;
      std::string text;
      for (const int before : former) text += std::to_string(before) + " ";
      SCOPED_TRACE(text + (shape.with_means ? "with means" : "ddp"));
      Expect(shape, former);
    });
  }
}

TEST(ShardedRendezvousHoldersTest, WithoutAnyStateNothingBegins) {
  const Shape shape{2, 2, false};
  const absl::StatusOr<RendezvousDecision> decision =
      Decide(shape, std::vector<RankPosition>(static_cast<size_t>(shape.ranks())));
  EXPECT_EQ(decision.status().code(), absl::StatusCode::kInternal);
}

TEST(ShardedRendezvousHoldersTest, WhoHasGivenUpItsStateKnowsThatTheTrainingHasBegun) {
  const Shape shape{2, 2, false};
  std::vector<RankPosition> reported(static_cast<size_t>(shape.ranks()));
  for (RankPosition& one : reported) one.step = 0;
  ASSERT_TRUE(Decide(shape, reported).ok());
  reported[3] = RankPosition();
  reported[3].decided = 2;
  EXPECT_EQ(Decide(shape, reported).status().code(), absl::StatusCode::kInternal);
}

TEST(ShardedRendezvousHoldersTest, WhatWasLoadedForAnotherPositionIsOfNoUse) {
  const Shape shape{2, 2, false};
  std::vector<RankPosition> reported(static_cast<size_t>(shape.ranks()));
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    reported[static_cast<size_t>(rank)].step = 70;
    reported[static_cast<size_t>(rank)].rank = rank;
  }
  reported[1].rank = 2;
  const absl::StatusOr<RendezvousDecision> decision = Decide(shape, reported);
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->transfers, (std::vector<Transfer>{Transfer{What::kAll, 3, 1}}));
}

}  // namespace
}  // namespace paceline
