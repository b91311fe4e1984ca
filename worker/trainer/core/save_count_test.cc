#include "worker/trainer/core/save_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace paceline {
namespace {

SaveCount At(int64_t counted, bool due = false) { return {due, counted}; }

TEST(SaveCountTest, EachMultipleIsDueOnce) {
  SaveCount count = At(17);
  std::vector<int64_t> due;
  for (int64_t step = 10; step <= 40; ++step) {
    count.CountTo(step, 10);
    if (std::exchange(count.due, false)) due.push_back(step);
  }
  EXPECT_EQ(due, (std::vector<int64_t>{20, 30, 40})) << "10 was counted before";
  count.CountTo(1000, 0);
  EXPECT_FALSE(count.due) << "none is due by steps";
}

// All have done the step at which a save is due, and were cut off before it was counted.
TEST(SaveCountTest, AStepThatNobodyHasCountedIsCounted) {
  const SaveCount agreed = AgreeOnSaves({At(26), At(26), At(24)}, 27, 27);
  EXPECT_TRUE(agreed.due);
  EXPECT_EQ(agreed.counted, 27);
}

TEST(SaveCountTest, ASaveThatSomeHaveNotBegunIsMadeAgain) {
  EXPECT_TRUE(AgreeOnSaves({At(28), At(26)}, 27, 28).due);
  EXPECT_FALSE(AgreeOnSaves({At(28), At(27)}, 27, 28).due) << "both have begun it";
  EXPECT_TRUE(AgreeOnSaves({At(28, true), At(28)}, 27, 28).due);
}

TEST(SaveCountTest, ASaveThatAllHaveBegunIsMadeAgainUnlessItIsComplete) {
  const auto agree = [](int64_t saved_step) {
    std::vector<SaveCount> reported = {At(44), At(47)};
    for (SaveCount& one : reported) one.CountFrom(saved_step);
    return AgreeOnSaves(reported, 20, 47);
  };
  EXPECT_TRUE(agree(20).due) << "that of step 40 was given up";
  EXPECT_EQ(agree(20).counted, 47);
  EXPECT_FALSE(agree(40).due);
  EXPECT_FALSE(agree(60).due) << "all went back behind it";
}

// The other trainer is of a release that is not told what is complete.
TEST(SaveCountTest, ItIsEnoughThatOneRankCountsAgain) {
  SaveCount told = At(44);
  told.CountFrom(20);
  EXPECT_TRUE(AgreeOnSaves({At(44), told}, 20, 44).due);
}

TEST(SaveCountTest, StepsThatAllWentBackBehindAreCountedAnew) {
  SaveCount agreed = AgreeOnSaves({At(30), At(30), At(20)}, 25, 20);
  EXPECT_FALSE(agreed.due);
  EXPECT_EQ(agreed.counted, 20);
  agreed.CountTo(25, 25);
  EXPECT_TRUE(agreed.due);
}

// Ranks with a streamed level: after each `interval`-th step they take up an average for which all
// have to have done all but `delay` of the steps, and may save then. A rank is lost at any moment,
// and another one takes its place with the state of one of the others.
class History {
 public:
  explicit History(uint32_t seed)
      : random_(seed),
        interval_(Number(1, 6)),
        delay_(Number(0, static_cast<int>(interval_) - 1)),
        every_(Number(1, 9)),
        steps_(Number(10, 60)),
        ranks_(static_cast<size_t>(Number(2, 5))) {}

  void Run() {
    for (int losses = Number(0, 6); losses > 0; --losses) {
      for (int moves = Number(1, 150); moves > 0; --moves) Move();
      LoseOne();
      if (testing::Test::HasFatalFailure()) return;
    }
    while (Move()) {
    }
    for (const Rank& rank : ranks_) ASSERT_EQ(rank.ended, steps_) << "it waits for good";
    CheckAlike(ranks_.size());
  }

 private:
  struct Rank {
    int64_t done = 0;
    int64_t ended = 0;  // With their exchange and their count.
    SaveCount count;
  };

  int Number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool IsTakenUpAfter(int64_t step) const { return step > 0 && step % interval_ == 0; }

  bool IsAble(const Rank& rank) const {
    if (rank.ended == rank.done) return rank.done < steps_;
    return !IsTakenUpAfter(rank.done) ||
           std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& other) { return other.done >= rank.done - delay_; });
  }

  // Lets one rank do something. False: none can.
  bool Move() {
    std::vector<size_t> able;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (IsAble(ranks_[i])) able.push_back(i);
    }
    if (able.empty()) return false;
    const size_t index = able[static_cast<size_t>(Number(0, static_cast<int>(able.size()) - 1))];
    Rank& rank = ranks_[index];
    if (rank.ended == rank.done) {
      ++rank.done;
    } else {
      rank.ended = rank.done;
      AfterStep(index, rank);
    }
    return true;
  }

  void AfterStep(size_t index, Rank& rank) {
    rank.count.CountTo(rank.ended, every_);
    if (!IsTakenUpAfter(rank.ended) || rank.ended <= furthest_) return;
    passed_[rank.ended].insert(index);
    if (std::exchange(rank.count.due, false)) saved_[rank.ended].insert(index);
    if (passed_[rank.ended].size() < ranks_.size()) return;
    const bool is_due = rank.ended / every_ > whole_ / every_;
    ASSERT_EQ(saved_[rank.ended].size(), is_due ? ranks_.size() : 0U) << "step " << rank.ended;
    if (is_due) whole_ = rank.ended;
  }

  // Whoever has passed a step has saved there if anybody has. A save of all `ranks` is whole.
  void CheckAlike(size_t ranks) {
    for (const auto& [step, saved] : saved_) {
      if (saved.empty()) continue;
      ASSERT_EQ(saved, passed_[step]) << "step " << step;
      if (saved.size() == ranks) whole_ = std::max(whole_, step);
    }
  }

  void LoseOne() {
    const auto lost = static_cast<size_t>(Number(0, static_cast<int>(ranks_.size()) - 1));
    for (auto* steps : {&saved_, &passed_}) {
      for (auto& [step, of] : *steps) of.erase(lost);
    }
    CheckAlike(ranks_.size() - 1);
    if (testing::Test::HasFatalFailure()) return;
    const auto other = static_cast<size_t>(Number(1, static_cast<int>(ranks_.size()) - 1));
    ranks_[lost] = ranks_[(lost + other) % ranks_.size()];
    std::vector<SaveCount> reported;
    furthest_ = 0;
    for (const Rank& rank : ranks_) {
      reported.push_back(rank.count);
      furthest_ = std::max(furthest_, rank.done);
    }
    const SaveCount agreed = AgreeOnSaves(reported, every_, furthest_);
    for (Rank& rank : ranks_) {
      rank.count = agreed;
      rank.ended = rank.done;  // An average that was cut off is taken up within the next step.
    }
    saved_.clear();
    passed_.clear();
  }

  std::mt19937 random_;
  const int64_t interval_;
  const int64_t delay_;
  const int64_t every_;
  const int64_t steps_;
  std::vector<Rank> ranks_;
  int64_t furthest_ = 0;
  int64_t whole_ = 0;  // The newest save that all ranks have begun.
  // In this generation: by step above the furthest, the ranks that have ended it, or saved then.
  std::map<int64_t, std::set<size_t>> passed_;
  std::map<int64_t, std::set<size_t>> saved_;
};

TEST(SaveCountTest, InAllHistoriesAllRanksSaveAlikeAndNoSaveIsMissed) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    History history(seed);
    history.Run();
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace paceline
