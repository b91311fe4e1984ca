// Histories of two replicas of two ranks: a step or an exchange is cut off, and then several
// rendezvous, each when only some ranks have carried its decision out. Ranks are lost, and some
// return.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/core/sharded_rendezvous.h"

namespace paceline {
namespace {

using What = Transfer::What;

constexpr int kShards = 2;
constexpr int kRanks = 4;
constexpr int64_t kStep = 5;
constexpr int64_t kLastGeneration = 5;

// What is cut off at first. After kStepOfAll all are equal; else each replica has its own state.
enum class Kind { kStepOfAll, kOwnStep, kExchange, kMeanOfAll };
// How far a rank was in it.
enum class Cut { kLost, kNotWithin, kPrepared, kApplied };

constexpr int kNothing = -1;
constexpr int kMean = 100;

// A trainer in its place: what it would report, and what its memory has.
struct TestRank {
  RankPosition position;
  int trajectory = kNothing;  // The replica whose training its parameters are of, or kMean.
  int64_t steps = 0;          // Applied to them.
  bool has_gradients = false;
  bool has_mean = false;
};

class History {
 public:
  explicit History(uint32_t seed) : random_(seed), kind_(static_cast<Kind>(Below(4))) { Begin(); }

  void Run() {
    for (int64_t generation = 2; generation <= kLastGeneration; ++generation) {
      LoseAndReturn();
      if (!AnyHasTrained()) return;
      const bool same = Below(4) > 0;
      const absl::StatusOr<RendezvousDecision> decision = Decide(same);
      if (!decision.ok()) {
        // The first decision may find that too much was lost with the step.
        ASSERT_TRUE(generation == 2 || was_anyone_lost_) << decision.status();
        return;
      }
      Check(*decision, generation);
      if (testing::Test::HasFatalFailure()) return;
      const bool to_its_end = Below(3) == 0;
      std::set<int> carriers;
      for (int rank = 0; rank < kRanks; ++rank) {
        if (to_its_end || Below(2) == 0) carriers.insert(rank);
      }
      CarryOut(*decision, generation, carriers, &ranks_);
      if (!to_its_end) {
        LoseReceivers(*decision, carriers);
        continue;
      }
      End(*decision, generation, &ranks_);
      for (int rank = 0; rank < kRanks; ++rank) {
        if (Below(2) == 0) Train(rank, generation);
      }
    }
  }

 private:
  int Below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  TestRank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  RankRange OwnReplica(int rank) const { return {rank / kShards * kShards, kShards}; }
  RankRange Gradients(int rank) const {
    return kind_ == Kind::kStepOfAll ? RankRange{0, kRanks} : OwnReplica(rank);
  }
  RankRange Exchange(int rank) const {
    return kind_ == Kind::kExchange ? RankRange{0, kRanks} : RankRange{rank, 1};
  }

  // Nobody applies what some rank of its word was not prepared for.
  bool IsPossible(const std::vector<Cut>& cuts) const {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (cuts[static_cast<size_t>(rank)] != Cut::kApplied) continue;
      const RankRange word = kind_ == Kind::kOwnStep ? OwnReplica(rank) : RankRange{0, kRanks};
      for (int other = 0; other < kRanks; ++other) {
        if (word.Holds(other) && cuts[static_cast<size_t>(other)] == Cut::kNotWithin) return false;
      }
    }
    return true;
  }

  void Begin() {
    std::vector<Cut> cuts(kRanks);
    do {
      for (Cut& cut : cuts) cut = static_cast<Cut>(Below(4));
    } while (!IsPossible(cuts));
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(CutOff(rank, cuts[static_cast<size_t>(rank)]));
    }
  }

  TestRank CutOff(int rank, Cut cut) const {
    if (cut == Cut::kLost) return TestRank();
    TestRank one;
    RankPosition& position = one.position;
    position.generation = 1;
    position.step = one.steps = kStep;
    position.rank = rank;
    position.gradients = position.peers = Gradients(rank);
    position.exchange = Exchange(rank);
    position.layout = 1;
    one.trajectory = kind_ == Kind::kStepOfAll ? 0 : rank / kShards;
    const bool prepared = cut == Cut::kPrepared;
    const bool applied = cut == Cut::kApplied;
    if (kind_ == Kind::kStepOfAll || kind_ == Kind::kOwnStep) {
      position.computed = position.prepared = one.has_gradients = prepared;
      if (applied) position.step = ++one.steps;
      return one;
    }
    position.mean_prepared = one.has_mean = prepared;
    if (applied) one.trajectory = kMean;
    if (kind_ == Kind::kExchange) {
      position.exchanged = applied;
    } else {
      position.means = applied ? 1 : 0;
    }
    return one;
  }

  // Others without a state take the places of the lost ones, until these return.
  void LoseAndReturn() {
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto away = away_.find(rank);
      const int what = Below(10);
      if (away == away_.end() && what == 0) {
        away_[rank] = at(rank);
        Lose(rank);
      } else if (away != away_.end() && what >= 6) {
        at(rank) = away->second;
        away_.erase(away);
      }
    }
  }
  void Lose(int rank) {
    at(rank) = TestRank();
    was_anyone_lost_ = true;
  }
  // A rank that was to get a state may have had a part of it when the rendezvous was cut off.
  void LoseReceivers(const RendezvousDecision& decision, const std::set<int>& carriers) {
    for (const Transfer& one : decision.transfers) {
      if (one.what == What::kAll && carriers.count(one.to) > 0 && Below(3) == 0) Lose(one.to);
    }
  }

  bool AnyHasTrained() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const TestRank& one) { return one.position.generation > 0; });
  }

  absl::StatusOr<RendezvousDecision> Decide(bool same_groups) const {
    std::vector<RankPosition> reported;
    for (const TestRank& one : ranks_) reported.push_back(one.position);
    std::vector<std::vector<int>> groups;
    if (kind_ != Kind::kStepOfAll) groups.push_back({kRanks / kShards});
    return DecideShardedRendezvous(reported, std::vector<uint64_t>(kRanks, same_groups ? 1 : 2),
                                   groups, kShards);
  }

  // If all carried it out, each replica would have one state.
  static void Check(const RendezvousDecision& decision, int64_t generation,
                    std::vector<TestRank> ranks, bool all_are_equal) {
    std::set<int> all;
    for (int rank = 0; rank < kRanks; ++rank) all.insert(rank);
    CarryOut(decision, generation, all, &ranks);
    End(decision, generation, &ranks);
    if (testing::Test::HasFatalFailure()) return;
    for (int rank = 0; rank < kRanks; ++rank) {
      const TestRank& one = ranks[static_cast<size_t>(rank)];
      const TestRank& first =
          ranks[static_cast<size_t>(all_are_equal ? 0 : rank / kShards * kShards)];
      ASSERT_NE(one.trajectory, kNothing) << "rank " << rank;
      ASSERT_EQ(one.trajectory, first.trajectory) << "rank " << rank;
      ASSERT_EQ(one.steps, first.steps) << "rank " << rank;
      ASSERT_EQ(one.position.step, one.steps) << "rank " << rank;
      ASSERT_EQ(one.position.exchanged, first.position.exchanged) << "rank " << rank;
    }
  }
  void Check(const RendezvousDecision& decision, int64_t generation) const {
    Check(decision, generation, ranks_, kind_ == Kind::kStepOfAll);
  }

  // As RunRendezvous: what `carriers` do by themselves.
  static void CarryOut(const RendezvousDecision& decision, int64_t generation,
                       const std::set<int>& carriers, std::vector<TestRank>* ranks) {
    for (const int rank : carriers) {
      TestRank& one = (*ranks)[static_cast<size_t>(rank)];
      const RankPosition& after = decision.positions[static_cast<size_t>(rank)];
      bool takes_step = false;
      bool takes_all = false;
      for (const Transfer& transfer : decision.transfers) {
        if (transfer.to != rank) continue;
        takes_all = takes_all || transfer.what == What::kAll;
        if (transfer.what == What::kOwnStep) {
          ASSERT_TRUE(one.has_gradients) << "rank " << rank;
          takes_step = true;
          one.position.step = ++one.steps;
          one.position.exchanged = one.position.exchange.size <= 1;
        } else if (transfer.what == What::kOwnMean) {
          ASSERT_TRUE(one.has_mean) << "rank " << rank;
          one.has_mean = one.position.mean_prepared = false;
          one.trajectory = kMean;
          one.position.exchanged = true;
          one.position.means = after.means;
        }
      }
      one.has_gradients = one.position.computed = one.position.prepared = false;
      if (takes_all) continue;
      ASSERT_EQ(after.step, one.steps) << "rank " << rank << (takes_step ? ", own step" : "");
      one.has_mean = false;
      one.position = Decided(decision, generation, rank);
    }
  }

  static RankPosition Decided(const RendezvousDecision& decision, int64_t generation, int rank) {
    RankPosition after = decision.positions[static_cast<size_t>(rank)];
    after.decided = generation;
    after.decided_rank = rank;
    if (!decision.same_groups) after.layout = 0;
    return after;
  }

  // All have carried the decision out.
  static void End(const RendezvousDecision& decision, int64_t generation,
                  std::vector<TestRank>* ranks) {
    for (const Transfer& one : decision.transfers) {
      if (one.what != What::kAll) continue;
      ASSERT_EQ(one.from % kShards, one.to % kShards);
      const TestRank& from = (*ranks)[static_cast<size_t>(one.from)];
      TestRank& to = (*ranks)[static_cast<size_t>(one.to)];
      to.trajectory = from.trajectory;
      to.steps = from.steps;
      to.has_mean = false;
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      (*ranks)[static_cast<size_t>(rank)].position = Decided(decision, generation, rank);
    }
  }

  // The rank has gone on, and is cut off before it has done anything.
  void Train(int rank, int64_t generation) {
    RankPosition& position = at(rank).position;
    position.Enter(generation);
    position.rank = rank;
    position.gradients = Gradients(rank);
    position.peers = position.alone_below == 0 ? position.gradients : RankRange();
    const bool was_alone = position.step - 1 < position.alone_below;
    position.exchange = was_alone ? RankRange() : Exchange(rank);
    position.layout = 1;
  }

  std::mt19937 random_;
  const Kind kind_;
  std::vector<TestRank> ranks_;
  std::map<int, TestRank> away_;  // By the place that they had.
  bool was_anyone_lost_ = false;
};

TEST(ShardedRendezvousHistoryTest, NothingIsAppliedTwiceOrTornByWhateverIsCutOff) {
  for (uint32_t seed = 0; seed < 20000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("history " + std::to_string(seed));
    History(seed).Run();
  }
}

}  // namespace
}  // namespace paceline
