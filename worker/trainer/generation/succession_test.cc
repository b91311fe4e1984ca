// Real trainer processes whose ranks change during training: planned swaps, shrinking and growing,
// hierarchical groups, and saves across generations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

using testing::ElementsAre;

class SuccessionTest : public RecoveryTest {
 protected:
  const std::string steps_ = "steps: 400 ";

  static FakeDaemon::Members Planned(std::vector<int> trainers) {
    FakeDaemon::Members members;
    members.trainers = std::move(trainers);
    members.planned = true;
    return members;
  }

  // Moves `leaver`'s rank to another trainer as planned; compares with the undisturbed job.
  // `hands_over`: nobody else has its state.
  void Swap(int leaver, int ranks = 3, bool hands_over = false, const std::string& more = "") {
    const std::string changes = steps_ + more;
    const auto undisturbed = RunUndisturbed(ranks, changes);
    const auto daemon = MakeDaemon();
    daemon->Launch(EvenSpec(ranks, "disturbed", changes, /*spares=*/1));
    WaitUntilReady(*daemon, ranks);
    WaitForSteps(*daemon, 0, 50);
    std::vector<int> trainers(static_cast<size_t>(ranks));
    std::iota(trainers.begin(), trainers.end(), 0);
    trainers[static_cast<size_t>(leaver)] = ranks;
    FakeDaemon::Members members = Planned(trainers);
    if (hands_over) members.hand_over[leaver] = leaver;
    daemon->SetMembers(members);
    WaitUntilRendezvous(*daemon);
    for (const int trainer : trainers) EXPECT_EQ(daemon->status(trainer).membership().error(), "");
    // One that hands its state over may learn that it has arrived after the newcomer goes on.
    ASSERT_TRUE(daemon->Serve([&] { return daemon->status(leaver).membership().waiting(); }));
    daemon->Stop(leaver);
    WaitForSuccess(*daemon, {leaver});
    WaitForSuccess(*daemon, trainers);
    ExpectSame(*undisturbed, *daemon, trainers, "disturbed");
  }

  // With weights that never change, a sample's loss identifies it.
  static constexpr char kStill[] =
      "batch_per_rank: 1 optimizer { sgd { momentum: 0 } learning_rate: 1e-30 } ";
  static void CountLosses(const FakeDaemon& daemon, int number, std::vector<double>* seen) {
    for (const double loss : Values(daemon, number, "loss")) seen->push_back(loss);
  }
  void ExpectEachSampleOnce(std::vector<double> seen, size_t least) {
    const auto one = RunJob(Spec(1, absl::StrCat(kStill, "steps: 200 ")));
    std::vector<double> all = Values(*one, 0, "loss");
    std::sort(all.begin(), all.end());
    std::sort(seen.begin(), seen.end());
    ASSERT_GE(seen.size(), least);
    size_t next = 0;
    for (const double loss : seen) {
      while (next < all.size() && all[next] < loss - 1e-6) ++next;
      ASSERT_LT(next, all.size());
      EXPECT_NEAR(all[next], loss, 1e-6) << "a sample was seen twice";
      ++next;
    }
  }
};

TEST_F(SuccessionTest, ASpareTakesARankByAPlan) { Swap(1); }

TEST_F(SuccessionTest, RankZeroIsSwappedAsAnyOther) { Swap(0); }

// Its successor has nobody else to get the state from.
TEST_F(SuccessionTest, TheOnlyRankHandsItsStateOver) { Swap(0, /*ranks=*/1, /*hands_over=*/true); }

// Each rank is a group of the lowest level.
TEST_F(SuccessionTest, ARankThatIsAloneInItsGroupHandsItsStateOver) {
  Swap(
      2, /*ranks=*/3, /*hands_over=*/true,
      "strategy { warmup_steps: 3 hsgd { ladder { period: 2 size: 1 } ladder { period: 8 size: 3 } "
      "} } ");
}

// The rounding errors that it has still to send go with it.
TEST_F(SuccessionTest, ARankThatAveragesAsInt8HandsItsRoundingErrorsOver) {
  Swap(2, /*ranks=*/3, /*hands_over=*/true,
       "strategy { warmup_steps: 3 hsgd { ladder { period: 2 size: 1 } ladder { period: 8 size: 3 "
       "format: WIRE_FORMAT_INT8 } } } ");
}

// What it has given to the average under way goes with it; the rounding errors before it, too.
TEST_F(SuccessionTest, ARankWithAnAverageUnderWayHandsThatOver) {
  for (const char* const format : {"", "format: WIRE_FORMAT_INT4 "}) {
    SCOPED_TRACE(format);
    Swap(2, /*ranks=*/3, /*hands_over=*/true,
         absl::StrCat("strategy { warmup_steps: 3 gradient_group_size: 1 hsgd { ladder { period: 8 "
                      "size: 3 ",
                      format,
                      "outer { kind: OUTER_NESTEROV learning_rate: 0.7 momentum: 0.9 fragments: 2 "
                      "delay: 3 alpha: 0.5 } } } } "));
  }
}

// The newcomer is lost before it has the state: the one that leaves comes back, and goes on.
TEST_F(SuccessionTest, WhoHandsItsStateOverKeepsItUntilTheGenerationHasComeAbout) {
  const auto undisturbed = RunUndisturbed(1, steps_);
  const auto daemon = MakeDaemon();
  daemon->Launch(EvenSpec(1, "disturbed", steps_, /*spares=*/1));
  WaitUntilReady(*daemon, 1);
  WaitForSteps(*daemon, 0, 50);
  FakeDaemon::Members members = Planned({1});
  members.hand_over[0] = 0;
  daemon->SetMembers(members);
  ASSERT_TRUE(
      daemon->Serve([&] { return daemon->status(0).membership().ready_generation() == 2; }));
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0}});
  WaitForSuccess(*daemon, {0});
  ExpectSame(*undisturbed, *daemon, {0}, "disturbed");
}

TEST_F(SuccessionTest, FewerRanksGoOnWithTheSamplesThatAreLeft) {
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(4, "disturbed", absl::StrCat(kStill, "steps: 60 ")));
  WaitForSteps(*daemon, 0, 10);
  daemon->Signal(2, SIGKILL);
  WaitForEnd(*daemon, 2);
  daemon->SetMembers({{0, 1, 3}});
  WaitForSuccess(*daemon, {0, 1, 3});
  std::vector<double> seen;
  for (int trainer = 0; trainer < 4; ++trainer) CountLosses(*daemon, trainer, &seen);
  // 60 steps of three ranks and the steps of the fourth; one of these may be unreported.
  ExpectEachSampleOnce(seen, 60 * 3 + 9);
}

// An elastic job gives ranks back while it trains.
TEST_F(SuccessionTest, ARankThatIsGivenBackLeavesBetweenTwoStepsAndEachSampleIsUsedOnce) {
  const auto daemon = MakeDaemon();
  daemon->Launch(EvenSpec(2, "disturbed", absl::StrCat(kStill, "steps: 100 ")));
  WaitForSteps(*daemon, 0, 10);
  daemon->SetMembers(Planned({0}));
  WaitUntilRendezvous(*daemon);
  EXPECT_EQ(daemon->status(0).membership().error(), "");
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(1).membership().waiting(); }));
  EXPECT_EQ(daemon->status(1).membership().error(), "");
  daemon->Stop(1);
  WaitForSuccess(*daemon, {1});
  WaitForSuccess(*daemon, {0});
  std::vector<double> seen;
  CountLosses(*daemon, 0, &seen);
  EXPECT_EQ(seen.size(), 100u) << "no step is lost or made twice";
  CountLosses(*daemon, 1, &seen);
  EXPECT_GT(seen.size(), 110u);
  EXPECT_LT(seen.size(), 200u);
  ExpectEachSampleOnce(seen, seen.size());
}

// Between two means ranks differ. What one that is given back has learnt stays: the other one goes
// on with the mean of both.
TEST_F(SuccessionTest, WhatARankHasLearntStaysWhenItIsGivenBack) {
  const auto changes = [](int64_t steps, int64_t period) {
    return absl::StrCat("batch_per_rank: 1 steps: ", steps,
                        " strategy { warmup_steps: 1 gradient_group_size: 1 hsgd { ladder { "
                        "period: ",
                        period, " size: 2 } } } ");
  };
  const auto daemon = MakeDaemon();
  daemon->Launch(EvenSpec(2, "disturbed", changes(100, 1000)));
  WaitForSteps(*daemon, 0, 10);
  FakeDaemon::Members members = Planned({0});
  members.averages_first = true;
  daemon->SetMembers(members);
  WaitUntilRendezvous(*daemon);
  EXPECT_EQ(daemon->status(0).membership().error(), "");
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(1).membership().waiting(); }));
  EXPECT_EQ(daemon->status(1).membership().error(), "");
  const int64_t left = daemon->status(1).membership().step();
  daemon->Stop(1);
  WaitForSuccess(*daemon, {1});
  WaitForSuccess(*daemon, {0});
  ASSERT_GE(left, 10);
  // The same mean as by a ladder, and the next step is of the same sample.
  const auto expected = RunUndisturbed(2, changes(left + 1, left - 1));
  const std::map<int64_t, std::string> losses = Losses(*daemon, 0);
  ASSERT_EQ(losses.count(left + 1), 1U) << "it left after step " << left;
  EXPECT_EQ(losses.at(left + 1), Losses(*expected, 0).at(left + 1));
  // Whoever waits for the mean shows it: there is no other one.
  absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon->RingPath(0));
  ASSERT_TRUE(ring.ok()) << ring.status();
  const StepRecord next = ring->ReadFrom(0).records.at(static_cast<size_t>(left));
  EXPECT_GT(next.phase_ns[static_cast<size_t>(Phase::kAveraging)], 0U);
  EXPECT_TRUE(next.masked);
}

TEST_F(SuccessionTest, TheBatchOfAllRanksStaysWithFewerOfThem) {
  const auto undisturbed = RunUndisturbed(4, "batch_per_rank: 5 ");
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(4, "disturbed", "batch_per_rank: 5 "));
  WaitForSteps(*daemon, 0, 50);
  for (const int victim : {1, 3}) {
    daemon->Signal(victim, SIGKILL);
    WaitForEnd(*daemon, victim);
  }
  FakeDaemon::Members members;
  members.trainers = {0, 2};
  members.batch_per_rank = 5;
  members.accumulation_steps = 2;
  daemon->SetMembers(members);
  WaitForSuccess(*daemon, {0, 2});
  const std::vector<double> expected = Values(*undisturbed, 0, "mean_loss");
  const std::vector<double> losses = Values(*daemon, 0, "mean_loss");
  ASSERT_EQ(expected.size(), 200u);
  ASSERT_GE(losses.size(), 199u);
  for (size_t i = 1; i <= 20; ++i) {
    EXPECT_NEAR(losses[losses.size() - i] / expected[200 - i], 1, 1e-3) << i;
  }
}

TEST_F(SuccessionTest, ANewRankJoinsByAPlan) {
  const auto daemon = MakeDaemon();
  daemon->Launch(EvenSpec(4, "disturbed", "steps: 600 log_every: 10 "));
  WaitForSteps(*daemon, 0, 20);
  daemon->Signal(3, SIGKILL);
  WaitForEnd(*daemon, 3);
  daemon->SetMembers({{0, 1, 2}});
  WaitUntilRendezvous(*daemon);
  const int joins = daemon->Add(2, 4);
  WaitUntilReady(*daemon, joins);
  daemon->SetMembers(Planned({0, 1, 2, joins}));
  WaitUntilRendezvous(*daemon);
  WaitForSuccess(*daemon, {0, 1, 2, joins});
  EXPECT_EQ(Losses(*daemon, 0).size(), 60u);
}

TEST_F(SuccessionTest, ALossDuringAPlannedChangeIsRecoveredFrom) {
  const auto undisturbed = RunUndisturbed(3, steps_);
  const auto daemon = MakeDaemon();
  daemon->Launch(EvenSpec(3, "disturbed", steps_, /*spares=*/2));
  for (const int spare : {3, 4}) WaitUntilReady(*daemon, spare);
  WaitForSteps(*daemon, 0, 50);
  daemon->SetMembers(Planned({0, 3, 2}));
  daemon->Signal(2, SIGKILL);
  WaitForEnd(*daemon, 2);
  daemon->SetMembers({{0, 1, 4}});
  WaitForSuccess(*daemon, {0, 1, 4});
  ExpectSame(*undisturbed, *daemon, {0, 1, 4}, "disturbed");
}

// The ranks drift apart between their means, so the test only checks that all continue and are
// equal where the method guarantees it.
TEST_F(SuccessionTest, HierarchicalGroupsGoOnAfterALoss) {
  for (const char* ladder :
       {"ladder { period: 2 size: 2 } ladder { period: 8 size: 4 }",
        "ladder { period: 2 size: 2 } ladder { period: 4 size: 4 format: WIRE_FORMAT_INT8 }"}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(RecoveringSpec(
        4, "disturbed",
        absl::StrCat("steps: 301 strategy { warmup_steps: 3 hsgd { ", ladder, " } } "),
        /*spares=*/2));
    for (const int spare : {4, 5}) WaitUntilReady(*daemon, spare);
    WaitForSteps(*daemon, 0, 40);
    daemon->Signal(3, SIGKILL);
    WaitForEnd(*daemon, 3);
    daemon->SetMembers({{0, 1, 2, 4}});
    WaitUntilRendezvous(*daemon);
    WaitForSteps(*daemon, 0, 140);
    daemon->Signal(0, SIGKILL);
    daemon->Signal(1, SIGKILL);
    for (const int victim : {0, 1}) WaitForEnd(*daemon, victim);
    const int added = daemon->Add(3, 1);
    daemon->SetMembers({{5, added, 2, 4}});
    WaitForSuccess(*daemon, {5, added, 2, 4});
    for (const int number : {5, added, 2, 4}) {
      const auto losses = Losses(*daemon, number);
      ASSERT_FALSE(losses.empty());
      EXPECT_EQ(losses.rbegin()->first, 301);
      EXPECT_EQ(static_cast<int64_t>(losses.size()), 302 - losses.begin()->first);
    }
  }
}

TEST_F(SuccessionTest, HierarchicalGroupsShrink) {
  const auto daemon = MakeDaemon();
  daemon->Launch(RecoveringSpec(
      4, "disturbed",
      absl::StrCat(kStill,
                   "steps: 40 strategy { hsgd { ladder { period: 2 size: 2 } ladder { "
                   "period: 4 size: 4 } } } ")));
  WaitForSteps(*daemon, 0, 10);
  daemon->Signal(3, SIGKILL);
  WaitForEnd(*daemon, 3);
  daemon->SetMembers({{0, 1, 2}});
  WaitForSuccess(*daemon, {0, 1, 2});
  std::vector<double> seen;
  for (int trainer = 0; trainer < 4; ++trainer) CountLosses(*daemon, trainer, &seen);
  ExpectEachSampleOnce(seen, 40 * 3);
}

TEST_F(SuccessionTest, SavesGoOnInTheNextGeneration) {
  const std::string out = directory_ + "/out";
  const auto daemon = MakeDaemon();
  daemon->Launch(
      RecoveringSpec(3, "disturbed",
                     absl::StrCat("checkpoint { directory: '", out,
                                  "' every_steps: 5 when_busy: WHEN_BUSY_WAIT } steps: 120 "),
                     /*spares=*/1));
  WaitUntilReady(*daemon, 3);
  WaitForSteps(*daemon, 1, 50);
  daemon->Signal(0, SIGKILL);
  WaitForEnd(*daemon, 0);
  daemon->SetMembers({{3, 1, 2}});
  WaitForSuccess(*daemon, {3, 1, 2});
  const std::string last =
      absl::StrCat(out, "/", FakeDaemon::JobId(), "/", CheckpointName({120, 2}));
  const auto damages = VerifyCheckpoint(last, [](int64_t, int64_t) {});
  ASSERT_TRUE(damages.ok()) << damages.status();
  EXPECT_THAT(*damages, ElementsAre());
  for (const v1::SaveStatus& save : daemon->status(1).saves()) EXPECT_EQ(save.generation(), 2);
}

}  // namespace
}  // namespace paceline
