#include "worker/trainer/core/stream_rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace paceline {
namespace {

StreamPosition At(int64_t latest, int64_t begun, int64_t taken) { return {latest, begun, taken}; }

TEST(StreamRendezvousTest, WhatNobodyHasIsSentAgain) {
  const std::vector<StreamPosition> reported{At(8, 8, 4), At(4, -1, 4)};
  const StreamAgreement agreement = AgreeOnAverages(reported);
  EXPECT_TRUE(agreement.gifts.empty());
  EXPECT_EQ(agreement.positions, reported) << "rank 1 has not come to step 8";
}

TEST(StreamRendezvousTest, WhoHasTakenItUpGivesIt) {
  const StreamAgreement agreement =
      AgreeOnAverages({At(8, 8, 4), At(8, -1, 8), At(8, -1, 8), At(8, 8, 4)});
  EXPECT_EQ(agreement.newest, 8);
  ASSERT_EQ(agreement.gifts.size(), 2u);
  EXPECT_EQ(agreement.gifts[0].from, 1);
  EXPECT_EQ(agreement.gifts[0].to, 0);
  EXPECT_EQ(agreement.gifts[1].from, 1);
  EXPECT_EQ(agreement.gifts[1].to, 3);
  EXPECT_EQ(agreement.positions[0], At(8, 8, 8)) << "at its step";
  EXPECT_FALSE(agreement.positions[0].is_waiting());
  EXPECT_EQ(agreement.positions[1], At(8, -1, 8));
}

TEST(StreamRendezvousTest, WhatOneHasDroppedAllDrop) {
  const StreamAgreement agreement = AgreeOnAverages({At(8, 8, 4), At(8, -1, 4), At(4, -1, 4)});
  EXPECT_TRUE(agreement.gifts.empty());
  EXPECT_EQ(agreement.positions[0], At(8, -1, 4));
  EXPECT_EQ(agreement.positions[2], At(4, -1, 4));
}

// Ranks that begin an average after every `interval`-th step and take it up `delay` steps later,
// as Strategy does. A rank is lost at any moment, and another one takes its place with the state of
// the most advanced one.
class History {
 public:
  explicit History(uint32_t seed)
      : random_(seed),
        interval_(Number(1, 5)),
        delay_(Number(0, static_cast<int>(interval_) - 1)),
        steps_(Number(5, 25)),
        ranks_(static_cast<size_t>(Number(2, 5))) {}

  // Runs all ranks to their end.
  void Run() {
    for (int losses = Number(0, 6); losses > 0; --losses) {
      for (int moves = Number(1, 150); moves > 0; --moves) Move();
      LoseOne();
    }
    while (Move()) {
    }
  }

  // Each average once, on all ranks alike, and from the same generation's sum.
  void Check() const {
    std::vector<int64_t> expected;
    for (int64_t step = 0; step + delay_ < steps_; step += interval_) expected.push_back(step);
    for (const Rank& rank : ranks_) {
      ASSERT_EQ(rank.steps_done, steps_) << "it waits for good";
      ASSERT_EQ(rank.taken_up, expected);
      ASSERT_EQ(rank.sums, ranks_.front().sums);
    }
  }

 private:
  enum class Next { kCatchUp, kStep, kBegin, kTakeUp };
  struct Rank {
    Next next = Next::kStep;
    int64_t step = 0;  // Under way.
    int64_t steps_done = 0;
    StreamPosition position;
    std::vector<int64_t> taken_up;
    std::map<int64_t, int> sums;  // By average: the generation that made its sum.
  };

  int Number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // Lets one rank do something. False: none can.
  bool Move() {
    std::vector<size_t> able;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (IsAble(ranks_[i])) able.push_back(i);
    }
    if (able.empty()) return false;
    Do(able[static_cast<size_t>(Number(0, static_cast<int>(able.size()) - 1))]);
    return true;
  }

  bool IsDue(const Rank& rank) const {
    return rank.position.begun >= 0 && rank.position.begun + delay_ <= rank.step;
  }

  bool IsAble(const Rank& rank) {
    if (rank.next == Next::kStep) return rank.steps_done < steps_;
    if (rank.next != Next::kTakeUp || !IsDue(rank) || !rank.position.is_waiting()) return true;
    return sent_[rank.position.begun].size() == ranks_.size();
  }

  void Do(size_t index) {
    Rank& rank = ranks_[index];
    StreamPosition& position = rank.position;
    switch (rank.next) {
      case Next::kCatchUp:
        if (position.is_waiting()) sent_[position.begun].insert(index);
        rank.step = rank.steps_done - 1;
        rank.next = rank.steps_done > 0 ? Next::kBegin : Next::kStep;
        break;
      case Next::kStep:
        rank.step = rank.steps_done++;
        rank.next = Next::kBegin;
        break;
      case Next::kBegin:
        if (rank.step % interval_ == 0 && rank.step > position.latest) {
          position.latest = position.begun = rank.step;
          sent_[rank.step].insert(index);
        }
        rank.next = Next::kTakeUp;
        break;
      case Next::kTakeUp:
        if (IsDue(rank)) {
          if (position.is_waiting()) rank.sums[position.begun] = generation_;
          position.taken = position.begun;
          rank.taken_up.push_back(position.begun);
          position.begun = -1;
        }
        rank.next = Next::kStep;
        break;
    }
  }

  void LoseOne() {
    const auto lost = static_cast<size_t>(Number(0, static_cast<int>(ranks_.size()) - 1));
    ranks_[lost] = Rank();
    ranks_[lost].steps_done = -1;
    ranks_[lost] =
        *std::max_element(ranks_.begin(), ranks_.end(),
                          [](const Rank& a, const Rank& b) { return a.steps_done < b.steps_done; });
    std::vector<StreamPosition> reported;
    for (const Rank& rank : ranks_) reported.push_back(rank.position);
    const StreamAgreement agreement = AgreeOnAverages(reported);
    for (const StreamAgreement::Gift& gift : agreement.gifts) {
      const auto from = static_cast<size_t>(gift.from);
      ranks_[static_cast<size_t>(gift.to)].sums[agreement.newest] =
          ranks_[from].sums[agreement.newest];
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].position = agreement.positions[i];
      ranks_[i].next = Next::kCatchUp;
    }
    sent_.clear();
    ++generation_;
  }

  std::mt19937 random_;
  const int64_t interval_;
  const int64_t delay_;
  const int64_t steps_;
  std::vector<Rank> ranks_;
  int generation_ = 0;
  std::map<int64_t, std::set<size_t>> sent_;  // In this generation: by average, the ranks.
};

TEST(StreamRendezvousTest, InAllHistoriesAllRanksTakeUpTheSameAverages) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    History history(seed);
    history.Run();
    history.Check();
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline
