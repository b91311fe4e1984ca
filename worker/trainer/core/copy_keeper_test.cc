#include "worker/trainer/core/copy_keeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace paceline {
namespace {

// Ranks in a ring, each the buddy of the one before, and the controller. Whatever travels between
// them does so when the test says. Copies are due after each step.
class Ring {
 public:
  Ring(int ranks, uint32_t seed) : random_(seed), ranks_(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      Rank& one = At(rank);
      one.keeper.Enter(OrdersOf(rank));
      one.told = one.keeper.report();
    }
  }

  // One thing happens.
  void Act() {
    const int rank = Draw(static_cast<int>(ranks_.size()));
    Rank& one = At(rank);
    switch (Draw(6)) {
      case 0:
        return Copy(rank);
      case 1:
        return Send(rank);
      case 2:
        return Answer(rank);
      case 3:  // Only the newest report arrives.
        one.told = one.keeper.report();
        return Decide();
      case 4:
        return one.keeper.OnOrders(OrdersOf(rank));
      default:  // Old orders.
        return one.keeper.OnOrders(one.keeper.orders());
    }
  }

  // From the first complete copies on, all ranks and their buddies have some.
  void Check() const {
    if (complete_ == 0) return;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      const CopyLabel label{rank, complete_, kGeneration};
      EXPECT_TRUE(At(rank).keeper.own().Find(label).has_value())
          << "rank " << rank << " has lost its copy of step " << complete_;
      EXPECT_TRUE(At(Buddy(rank)).keeper.ward().Find(label).has_value())
          << "the buddy of rank " << rank << " has lost the copy of step " << complete_;
    }
  }

  int64_t complete() const { return complete_; }

 private:
  static constexpr int64_t kGeneration = 3;

  struct Rank {
    CopyKeeper keeper;
    int64_t step = 0;
    CopyReport told;             // As the controller knows it.
    std::optional<size_t> own;   // The place of the copy under way.
    std::optional<size_t> ward;  // That of the ward's, at this rank.
    bool sent = false;           // The buddy has begun to receive it, or has refused it.
    int64_t copied = 0;          // Step of the copy under way.
  };

  int Draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  Rank& At(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& At(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  int Buddy(int rank) const { return (rank + 1) % static_cast<int>(ranks_.size()); }

  CopyOrders OrdersOf(int rank) const {
    CopyOrders orders;
    orders.generation = kGeneration;
    orders.seat = rank;
    orders.complete_step = complete_;
    orders.complete_generation = complete_ > 0 ? kGeneration : 0;
    orders.settled_step = settled_;
    return orders;
  }

  // A step needs all ranks, so none gets further than one ahead.
  void Copy(int rank) {
    Rank& one = At(rank);
    for (const Rank& other : ranks_) {
      if (other.step < one.step) return;
    }
    const std::optional<size_t> place = one.keeper.BeginOwn(++one.step);
    if (!place.has_value()) return;
    ASSERT_FALSE(one.own.has_value()) << "two copies at once";
    one.own = place;
    one.copied = one.step;
    one.sent = false;
    one.keeper.OnStaged(*place);
  }

  void Send(int rank) {
    Rank& one = At(rank);
    Rank& buddy = At(Buddy(rank));
    if (!one.own.has_value() || one.sent) return;
    one.sent = true;
    buddy.ward = buddy.keeper.BeginWard({rank, one.copied, kGeneration}, one.keeper.orders());
  }

  void Answer(int rank) {
    Rank& one = At(rank);
    Rank& buddy = At(Buddy(rank));
    if (!one.own.has_value() || !one.sent) return;
    if (buddy.ward.has_value() && Draw(5) > 0) {
      buddy.keeper.OnReceived(*buddy.ward);
      // The answer may get lost.
      if (Draw(8) > 0) {
        one.keeper.OnSent(*one.own, one.copied);
      } else {
        one.keeper.OnFailed(*one.own, one.copied, "no answer");
      }
    } else {
      if (buddy.ward.has_value()) buddy.keeper.OnNotReceived(*buddy.ward);
      one.keeper.OnFailed(*one.own, one.copied, "refused");
    }
    buddy.ward.reset();
    one.own.reset();
  }

  // As TakeCopies in controller/core/recovery/copies.cc.
  void Decide() {
    int64_t settled = ranks_.front().told.settled_step;
    const int64_t copied = ranks_.front().told.copied_step;
    bool all = copied > complete_;
    for (const Rank& one : ranks_) {
      settled = std::min(settled, one.told.settled_step);
      all = all && one.told.copied_step == copied;
    }
    if (all) complete_ = copied;
    settled_ = std::max(settled_, settled);
  }

  std::mt19937 random_;
  std::vector<Rank> ranks_;
  int64_t complete_ = 0;
  int64_t settled_ = 0;
};

TEST(CopyKeeperTest, SomeCompleteCopiesAreThereAtAnyMoment) {
  int completed = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Ring ring(2 + static_cast<int>(seed % 3), seed);
    for (int i = 0; i < 4000; ++i) {
      const int64_t before = ring.complete();
      ring.Act();
      completed += ring.complete() > before ? 1 : 0;
      ring.Check();
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << ", event " << i;
    }
  }
  EXPECT_GT(completed, 600);
}

CopyOrders Orders(int64_t generation, int seat, int64_t step = 0, int64_t made_in = 0) {
  CopyOrders orders;
  orders.generation = generation;
  orders.seat = seat;
  orders.complete_step = step;
  orders.complete_generation = made_in;
  return orders;
}

TEST(CopyKeeperTest, ANewGenerationKeepsWhatIsCompleteAlone) {
  CopyKeeper keeper;
  keeper.Enter(Orders(1, 2));
  keeper.OnSent(*keeper.BeginOwn(10), 10);
  keeper.OnReceived(*keeper.BeginWard({1, 10, 1}, Orders(1, 1)));
  CopyOrders complete = Orders(1, 2, 10, 1);
  complete.settled_step = 10;
  keeper.OnOrders(complete);
  keeper.OnSent(*keeper.BeginOwn(20), 20);
  keeper.OnReceived(*keeper.BeginWard({1, 20, 1}, complete));
  EXPECT_EQ(keeper.own().Whole().size(), 2u);
  keeper.Enter(Orders(2, 2, 10, 1));
  EXPECT_EQ(keeper.own().Whole(), (std::vector<CopyLabel>{{2, 10, 1}}));
  EXPECT_EQ(keeper.ward().Whole(), (std::vector<CopyLabel>{{1, 10, 1}}));
  EXPECT_EQ(keeper.report().generation, 2);
  EXPECT_EQ(keeper.report().copied_step, 0);
}

TEST(CopyKeeperTest, ACopyThatIsGivenUpBesideAnotherIsReportedWhenThatIsSettled) {
  CopyKeeper keeper;
  keeper.Enter(Orders(1, 0));
  const size_t place = *keeper.BeginOwn(10);
  EXPECT_FALSE(keeper.BeginOwn(20).has_value());
  EXPECT_EQ(keeper.report().settled_step, 0);
  keeper.OnSent(place, 10);
  EXPECT_EQ(keeper.report().copied_step, 10);
  EXPECT_EQ(keeper.report().settled_step, 20);
  EXPECT_NE(keeper.report().error, "");
}

TEST(CopyKeeperTest, OnlyACopyThatWasBegunHasFailed) {
  CopyKeeper keeper;
  keeper.Enter(Orders(1, 0));
  const size_t place = *keeper.BeginOwn(10);
  EXPECT_FALSE(keeper.BeginOwn(20).has_value());
  EXPECT_EQ(keeper.report().failed_step, 0) << "it is left out";
  keeper.OnFailed(place, 10, "the connection broke");
  EXPECT_EQ(keeper.report().failed_step, 10);
  EXPECT_EQ(keeper.report().settled_step, 20);
  keeper.OnSent(*keeper.BeginOwn(30), 30);
  EXPECT_EQ(keeper.report().copied_step, 30);
  keeper.Enter(Orders(2, 0));
  EXPECT_EQ(keeper.report().failed_step, 0);
}

TEST(CopyKeeperTest, ACopyOfAnotherSeatIsKeptUntilAllAreKnownToHaveGoneBack) {
  CopyKeeper keeper;
  keeper.Enter(Orders(1, 0));
  keeper.OnSent(*keeper.BeginOwn(10), 10);
  CopyOrders moved = Orders(2, 4, 10, 1);
  moved.restore = true;
  keeper.Enter(moved);
  keeper.OnFetched(*keeper.BeginFetch({4, 10, 1}));
  keeper.OnOrders(moved);
  EXPECT_FALSE(keeper.BeginOwn(20).has_value());
  EXPECT_EQ(keeper.report().settled_step, 20);
  EXPECT_NE(keeper.report().error, "");
  EXPECT_TRUE(keeper.own().Find({0, 10, 1}).has_value());
  moved.restore = false;
  keeper.OnOrders(moved);
  EXPECT_EQ(keeper.own().Whole(), (std::vector<CopyLabel>{{4, 10, 1}}));
  EXPECT_TRUE(keeper.BeginOwn(30).has_value());
}

TEST(CopyKeeperTest, ARankThatGoesOnInAnotherSeatKeepsItsCopyOfTheOneBefore) {
  CopyKeeper keeper;
  keeper.Enter(Orders(1, 0));
  keeper.OnSent(*keeper.BeginOwn(10), 10);
  const CopyOrders moved = Orders(2, 4, 10, 1);
  keeper.Enter(moved);
  keeper.OnOrders(moved);
  EXPECT_EQ(keeper.own().Whole(), (std::vector<CopyLabel>{{0, 10, 1}}));
  EXPECT_TRUE(keeper.BeginOwn(20).has_value());
}

TEST(CopyKeeperTest, StepsLostInAGenerationThatDidNotComeAboutAreReportedInTheNext) {
  CopyKeeper keeper;
  keeper.Enter(Orders(2, 0, 10, 1));
  keeper.OnGoingBack(7);
  keeper.Enter(Orders(3, 0, 10, 1));
  EXPECT_EQ(keeper.report().steps_lost, 0);
  keeper.OnGoingBack(0);
  EXPECT_EQ(keeper.report().steps_lost, 7);
  keeper.OnBegun();
  keeper.Enter(Orders(4, 0, 10, 1));
  keeper.OnGoingBack(2);
  EXPECT_EQ(keeper.report().steps_lost, 2);
}

// All ways to hold two copies among three ranks.
TEST(SourcesOfCopiesTest, EachTakesItsOwnIfItHasItElseAnybodys) {
  const std::vector<CopyLabel> wanted{{0, 10, 1}, {1, 10, 1}, {2, 10, 1}};
  for (unsigned set = 0; set < 512; ++set) {
    std::vector<std::vector<CopyLabel>> held(3);
    for (size_t i = 0; i < 9; ++i) {
      if ((set >> i & 1U) != 0) held[i / 3].push_back(wanted[i % 3]);
    }
    const std::vector<int> sources = SourcesOfCopies(held, wanted);
    for (size_t rank = 0; rank < 3; ++rank) {
      const auto has = [&, label = wanted[rank]](size_t other) {
        return std::find(held[other].begin(), held[other].end(), label) != held[other].end();
      };
      if (sources[rank] < 0) {
        EXPECT_FALSE(has(0) || has(1) || has(2)) << set;
      } else {
        EXPECT_TRUE(has(static_cast<size_t>(sources[rank]))) << set;
        EXPECT_EQ(sources[rank] == static_cast<int>(rank), has(rank)) << set;
      }
    }
  }
}

}  // namespace
}  // namespace paceline
