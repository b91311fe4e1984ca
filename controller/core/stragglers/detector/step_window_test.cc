#include "controller/core/stragglers/detector/step_window.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

StepWindow::Taken Add(StepWindow& window, int rank, int64_t step, bool masked = false) {
  StepSample sample;
  sample.rank = rank;
  sample.step = step;
  sample.forward_s = rank + 1;
  sample.masked = masked;
  return window.Add(sample);
}

// Adds a step of all but the last `without` of 16 ranks.
void AddAll(StepWindow& window, int64_t step, int without = 0) {
  for (int rank = 0; rank < 16 - without; ++rank) Add(window, rank, step);
}

TEST(StepWindowTest, StepIsSettledWhenAllHaveReported) {
  StepWindow window(2, 8);
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(Add(window, 0, 5), StepWindow::Taken::kTaken);
  EXPECT_FALSE(window.settled());
  EXPECT_EQ(Add(window, 1, 5, /*masked=*/true), StepWindow::Taken::kTaken);
  EXPECT_TRUE(window.settled());
  EXPECT_EQ(window.step(), 5);
  EXPECT_TRUE(window.masked());
  EXPECT_EQ(window.missing(), 0);
  EXPECT_EQ(window.cells()[1].forward_s, 2);
  window.RemoveOldest();
  EXPECT_TRUE(window.empty());
}

TEST(StepWindowTest, RepeatedAndLateReportsAreNotTaken) {
  StepWindow window(2, 8);
  Add(window, 0, 5);
  EXPECT_EQ(Add(window, 0, 5), StepWindow::Taken::kRepeated);
  Add(window, 1, 5);
  window.RemoveOldest();
  EXPECT_EQ(Add(window, 0, 5), StepWindow::Taken::kLate);
  EXPECT_EQ(Add(window, 0, 4), StepWindow::Taken::kLate);
  EXPECT_TRUE(window.empty());
}

TEST(StepWindowTest, StepsLeaveInTheirOrderNotThatOfReports) {
  StepWindow window(2, 8);
  for (const int64_t step : {30, 10, 20}) Add(window, 0, step);
  for (const int64_t step : {20, 30, 10}) Add(window, 1, step);
  for (const int64_t step : {10, 20, 30}) {
    EXPECT_EQ(window.step(), step);
    EXPECT_TRUE(window.settled());
    window.RemoveOldest();
  }
}

TEST(StepWindowTest, RankThatHasGoneOnIsNotAwaited) {
  StepWindow window(2, 8);
  for (int64_t step = 0; step < 4; ++step) Add(window, 0, step);
  for (int64_t step = 1; step < 3; ++step) Add(window, 1, step);
  EXPECT_FALSE(window.settled());
  Add(window, 1, 3);
  EXPECT_TRUE(window.settled());
  EXPECT_EQ(window.missing(), 1);
  EXPECT_FALSE(window.cells()[1].present);
  window.RemoveOldest();
  EXPECT_EQ(window.missing(), 0);
}

TEST(StepWindowTest, FullWindowGivesUpItsOldestStep) {
  StepWindow window(3, 4);
  for (int64_t step = 0; step < 4; ++step) {
    for (const int rank : {0, 1}) Add(window, rank, step);
  }
  EXPECT_FALSE(window.NeedsRoom(0, 3));
  EXPECT_TRUE(window.NeedsRoom(0, 4));
  window.RemoveOldest();
  EXPECT_FALSE(window.NeedsRoom(0, 4));
  Add(window, 0, 4);
  EXPECT_EQ(window.step(), 1);
  EXPECT_FALSE(window.NeedsRoom(2, 0)) << "too late, not in need of room";
  EXPECT_EQ(Add(window, 2, 0), StepWindow::Taken::kLate);
}

TEST(StepWindowTest, RankThatRunsAheadWaitsForTheOthers) {
  StepWindow window(8, 8);
  for (int64_t step = 0; step < 20; ++step) {
    EXPECT_FALSE(window.NeedsRoom(5, step));
    EXPECT_EQ(Add(window, 5, step),
              step < 8 ? StepWindow::Taken::kTaken : StepWindow::Taken::kLate);
  }
  EXPECT_EQ(window.step(), 0);
  EXPECT_FALSE(window.NeedsRoom(2, 500)) << "one rank's steps are no rows";
  EXPECT_EQ(Add(window, 2, 500), StepWindow::Taken::kTaken);
  EXPECT_EQ(window.step(), 1);
}

TEST(StepWindowTest, InventedStepsBlockNobody) {
  for (const int liars : {1, 4}) {
    StepWindow window(32, 16);
    int64_t invented = 1000;
    int rows = 0;
    int missing = 0;
    const auto add = [&](int rank, int64_t step) {
      while (window.NeedsRoom(rank, step)) window.RemoveOldest();
      const StepWindow::Taken taken = Add(window, rank, step);
      while (!window.empty() && window.settled()) {
        ++rows;
        missing += window.missing();
        EXPECT_LT(window.step(), 1000);
        window.RemoveOldest();
      }
      return taken;
    };
    for (int64_t step = 0; step < 200; ++step) {
      for (int i = 0; i < 40 && step % 10 == 5; ++i) add(31 - i % liars, ++invented);
      for (int rank = 0; rank < 32; ++rank) {
        const bool is_liar = rank >= 32 - liars && step % 10 == 5;
        if (add(rank, step) == StepWindow::Taken::kTaken) continue;
        EXPECT_TRUE(is_liar) << rank << " in " << step;
      }
    }
    EXPECT_EQ(rows, 200) << liars;
    EXPECT_LE(missing, 20 * liars);
  }
}

TEST(StepWindowTest, SilentRankIsNotAwaitedUntilItReportsAgain) {
  StepWindow window(3, 4);
  int64_t step = 0;
  for (; step < 8; ++step) {
    if (window.NeedsRoom(0, step)) window.RemoveOldest();
    Add(window, 0, step);
    Add(window, 1, step);
  }
  EXPECT_TRUE(window.settled());
  while (!window.empty()) window.RemoveOldest();
  Add(window, 2, step);
  Add(window, 0, step);
  EXPECT_FALSE(window.settled());
  Add(window, 1, step);
  EXPECT_TRUE(window.settled());
  window.RemoveOldest();
  Add(window, 0, ++step);
  Add(window, 1, step);
  EXPECT_FALSE(window.settled()) << "it is awaited again";
}

TEST(StepWindowTest, SilentRankThatComesBackLastIsHeard) {
  StepWindow window(8, 16);
  int64_t step = 0;
  const auto play = [&](int steps, int ranks) {
    int taken = 0;
    for (int i = 0; i < steps; ++i, ++step) {
      for (int rank = 0; rank < ranks; ++rank) {
        if (window.NeedsRoom(rank, step)) window.RemoveOldest();
        if (Add(window, rank, step) == StepWindow::Taken::kTaken) ++taken;
        while (!window.empty() && window.settled()) window.RemoveOldest();
      }
    }
    return taken;
  };
  EXPECT_EQ(play(100, 7), 700);
  EXPECT_TRUE(window.empty()) << "nobody awaits the eighth";
  EXPECT_EQ(play(1, 8), 7);
  EXPECT_EQ(play(100, 8), 800);
  EXPECT_EQ(Add(window, 7, 3), StepWindow::Taken::kLate);
  EXPECT_EQ(play(100, 7), 700);
  Add(window, 7, 3);
  EXPECT_EQ(play(20, 7), 140);
  EXPECT_TRUE(window.empty()) << "what it has told before is no news of it";
}

TEST(StepWindowTest, LostReportsOfFewRanksDelayLittle) {
  StepWindow window(16, 64);
  int64_t step = 0;
  for (; step < 40; ++step) {
    AddAll(window, step);
    while (!window.empty() && window.settled()) window.RemoveOldest();
  }
  AddAll(window, step++, /*without=*/2);
  EXPECT_FALSE(window.settled());
  AddAll(window, step++, /*without=*/2);
  EXPECT_TRUE(window.settled());
  while (!window.empty()) window.RemoveOldest();
  AddAll(window, step++, /*without=*/3);
  AddAll(window, step++, /*without=*/3);
  EXPECT_FALSE(window.settled()) << "these are not few";
}

TEST(StepWindowTest, RanksWhoseReportsComeInBatchesAreWaitedFor) {
  StepWindow window(16, 64);
  int missing = 0;
  for (int64_t batch = 0; batch < 20; ++batch) {
    for (int rank = 0; rank < 16; ++rank) {
      for (int64_t step = 10 * batch; step < 10 * batch + 10; ++step) {
        Add(window, rank, step);
        while (!window.empty() && window.settled()) {
          missing += window.missing();
          window.RemoveOldest();
        }
      }
    }
  }
  EXPECT_EQ(missing, 0);
  EXPECT_TRUE(window.empty());
}

TEST(StepWindowTest, PatienceGrowsForARankThatComesTooLate) {
  StepWindow window(16, 64);
  const auto play = [&](int64_t from, int64_t to, int64_t behind) {
    int late = 0;
    for (int64_t step = from; step < to; ++step) {
      AddAll(window, step, /*without=*/1);
      if (Add(window, 15, step - behind) == StepWindow::Taken::kLate) ++late;
      while (!window.empty() && window.settled()) window.RemoveOldest();
    }
    return late;
  };
  play(0, 100, 0);
  EXPECT_GT(play(100, 200, 10), 5);
  EXPECT_EQ(play(200, 300, 10), 0);
}

}  // namespace
}  // namespace paceline
