// The ledger of samples of a session, over kills, swaps, and other numbers of ranks.
#include "worker/trainer/saving/sample_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "python/tests/session_fixture.h"
#include "worker/trainer/core/sample_use.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class LedgerTest : public SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    setenv("HABITS", "tell", 1);
    setenv("SAMPLES", "120", 1);
  }
  void TearDown() override {
    unsetenv("HABITS");
    unsetenv("SAMPLES");
    SessionFixture::TearDown();
  }

  std::string KeepsLedger() const {
    return absl::StrCat("checkpoint { directory: '", directory_,
                        "/checkpoints' every_steps: 6 at_end: false when_busy: WHEN_BUSY_WAIT "
                        "sample_ledger: true } ");
  }
  std::string JobDirectory() const {
    return absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId());
  }
  std::string Saved(int64_t step, int64_t generation) const {
    return absl::StrCat(JobDirectory(), "/", CheckpointName({step, generation}));
  }

  std::vector<SampleRun> Runs() const {
    const absl::StatusOr<LedgerFiles> files = ReadSampleLedger(JobDirectory());
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? files->runs : std::vector<SampleRun>();
  }
  std::vector<StepUse> Steps() const {
    std::vector<StepUse> steps;
    ForEachStep(CountedRuns(Runs()), [&](const StepUse& use) { steps.push_back(use); });
    return steps;
  }

  // Whether a rank has noted in this generation that it has done so many steps.
  bool HasNoted(int64_t generation, int64_t steps_done) const {
    const absl::StatusOr<LedgerFiles> files = ReadSampleLedger(JobDirectory());
    if (!files.ok()) return false;  // Not yet.
    return std::any_of(files->runs.begin(), files->runs.end(), [&](const SampleRun& run) {
      return run.generation == generation && run.first_step + run.steps >= steps_done;
    });
  }

  // Waits for the checkpoint, and for the record of later steps, which will be undone. Then all
  // these trainers die.
  void KillBehind(FakeDaemon& daemon, const std::string& checkpoint, int64_t generation,
                  int64_t steps_done, const std::vector<int>& trainers) const {
    const std::string manifest = absl::StrCat(checkpoint, "/", kManifestName);
    ASSERT_TRUE(daemon.Serve([&] { return std::filesystem::exists(manifest); })) << daemon.Log(0);
    ASSERT_TRUE(std::filesystem::exists(manifest)) << daemon.Log(0);
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (!HasNoted(generation, steps_done) && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    ASSERT_TRUE(HasNoted(generation, steps_done)) << daemon.Log(0);
    for (const int trainer : trainers) daemon.Signal(trainer, SIGKILL);
    for (const int trainer : trainers) WaitForEnd(daemon, trainer);
  }

  // The script of this rank has told the same.
  static void ExpectTold(const FakeDaemon& daemon, int rank, const StepUse& step) {
    EXPECT_THAT(daemon.Log(rank),
                HasSubstr(absl::StrCat("trained on ", step.step, " ",
                                       absl::StrJoin(SamplesOf(step, rank), " "), "\n")));
  }
};

TEST_F(LedgerTest, EachSampleOfAnEpochIsUsedOnceWhateverHappens) {
  // A rank is lost and swapped in step 5. The job goes back to 12 steps with fewer ranks, and to 18
  // with more again.
  const std::string moments = "backward 5 1 kill,begin 15 0 wait,begin 20 0 wait";
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "swapped", KeepsLedger(), moments, /*spares=*/1));
  WaitUntilReady(*daemon, 3);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3, 2}});
  KillBehind(*daemon, Saved(12, 2), /*generation=*/2, /*steps_done=*/15, {0, 2, 3});
  if (HasFatalFailure()) return;
  daemon->Launch(SessionSpec(2, "shrunk", KeepsLedger(), moments), /*generation=*/3, Saved(12, 2));
  KillBehind(*daemon, Saved(18, 3), /*generation=*/3, /*steps_done=*/20, {0, 1});
  if (HasFatalFailure()) return;
  daemon->Launch(SessionSpec(3, "grown", KeepsLedger(), moments), /*generation=*/4, Saved(18, 3));
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);

  const LedgerUse use = UseOf(CountedRuns(Runs()));
  EXPECT_EQ(use.first_step, 0);
  EXPECT_EQ(use.last_step, 23);
  EXPECT_EQ(use.missing, 0);
  EXPECT_EQ(use.unknown, 0);
  ASSERT_THAT(use.epochs, SizeIs(3));
  for (const size_t whole : {0U, 1U}) {
    EXPECT_EQ(use.epochs[whole].once, 120) << whole;
    EXPECT_EQ(use.epochs[whole].again, 0) << whole;
  }
  EXPECT_EQ(use.epochs[2].once, 24);

  // The same, counted one by one. No step has samples of two epochs.
  const std::vector<StepUse> steps = Steps();
  ASSERT_THAT(steps, SizeIs(24));
  std::vector<int64_t> samples;
  for (const StepUse& step : steps) {
    EXPECT_EQ(step.as.world_size, step.step < 12 || step.step >= 18 ? 3 : 2) << step.step;
    for (const int rank : step.ranks) {
      const std::vector<int64_t> of_rank = SamplesOf(step, rank);
      samples.insert(samples.end(), of_rank.begin(), of_rank.end());
      if (step.step >= 18) ExpectTold(*daemon, rank, step);
    }
  }
  ASSERT_THAT(samples, SizeIs(264));
  for (const int epoch : {0, 1}) {
    const auto begin = samples.begin() + 120 * epoch;
    const std::set<int64_t> distinct(begin, begin + 120);
    EXPECT_THAT(distinct, SizeIs(120)) << epoch;
    EXPECT_EQ(*distinct.rbegin(), 119) << epoch;
  }
}

TEST_F(LedgerTest, AJobThatShrinksAndGrowsWhileItTrainsUsesEachSampleOnce) {
  // Three ranks, two from step 5 on, and three from step 11 on, of which two are new.
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "changed", KeepsLedger(), "backward 5 1 kill,backward 11 1 kill",
                             /*spares=*/2));
  for (const int spare : {3, 4}) WaitUntilReady(*daemon, spare);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 2}});
  WaitForEnd(*daemon, 2);
  daemon->SetMembers({{0, 3, 4}});
  WaitForSuccess(*daemon, {0, 3, 4});

  const LedgerUse use = UseOf(CountedRuns(Runs()));
  EXPECT_EQ(use.last_step, 23);
  EXPECT_EQ(use.missing, 0);
  ASSERT_THAT(use.epochs, SizeIs(3));
  for (const EpochUse& epoch : use.epochs) {
    EXPECT_EQ(epoch.once, epoch.epoch < 2 ? 120 : 24) << epoch.epoch;
    EXPECT_EQ(epoch.again, 0) << epoch.epoch;
  }
  for (const StepUse& step : Steps()) {
    EXPECT_EQ(step.as.world_size, step.step < 5 || step.step >= 11 ? 3 : 2) << step.step;
    ExpectTold(*daemon, 0, step);  // Rank 0 has made them all.
  }
}

// As an elastic job does: three ranks, then two, and three again. Nothing is made twice.
TEST_F(LedgerTest, AJobThatGivesRanksBackAndGrowsAsPlannedUsesNoSampleTwice) {
  const std::string keeps = absl::StrCat("checkpoint { directory: '", directory_,
                                         "/checkpoints' at_end: false sample_ledger: true } ");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "planned", absl::StrCat(keeps, "steps: 1000 ", Slowed(0, 0.05))));
  WaitForSteps(*daemon, 0, 5);
  FakeDaemon::Members members;
  members.planned = true;
  for (const std::vector<int>& trainers : {std::vector<int>{0, 1}, std::vector<int>{0, 1, 2}}) {
    members.trainers = trainers;
    daemon->SetMembers(members);
    WaitUntilRendezvous(*daemon);
    for (const int trainer : trainers) EXPECT_EQ(daemon->status(trainer).membership().error(), "");
  }
  WaitForSuccess(*daemon, {0, 1, 2});

  const LedgerUse use = UseOf(CountedRuns(Runs()));
  EXPECT_EQ(use.last_step, 999);
  EXPECT_EQ(use.missing, 0);
  EXPECT_EQ(use.unknown, 0);
  for (const EpochUse& epoch : use.epochs) {
    EXPECT_EQ(epoch.again, 0) << epoch.epoch;
    // What is left is less than a step of three ranks.
    if (&epoch != &use.epochs.back()) EXPECT_LT(epoch.never, 12) << epoch.epoch;
  }
  std::vector<int64_t> sizes;  // One after the other.
  for (const StepUse& step : Steps()) {
    if (sizes.empty() || sizes.back() != step.as.world_size) sizes.push_back(step.as.world_size);
    ExpectTold(*daemon, 0, step);  // Rank 0 has made them all, each once.
  }
  EXPECT_THAT(sizes, ElementsAre(3, 2, 3));
}

TEST_F(LedgerTest, WithLocalAveragingEachRankNotesItsOwn) {
  const auto daemon = RunJob(SessionSpec(
      2, "local",
      KeepsLedger() + "strategy { gradient_group_size: 1 hsgd { ladder { period: 3 size: 2 } } }"));
  for (const SampleRun& run : Runs()) EXPECT_EQ(run.with_size, 1);
  const LedgerUse use = UseOf(CountedRuns(Runs()));
  EXPECT_EQ(use.missing, 0);
  EXPECT_EQ(use.last_step, 23);
  ASSERT_THAT(use.epochs, SizeIs(2));
  EXPECT_EQ(use.epochs[0].once, 120);
  for (const StepUse& step : Steps()) {
    for (const int rank : {0, 1}) ExpectTold(*daemon, rank, step);
  }
}

TEST_F(LedgerTest, BatchesThatTheLoaderDidNotGiveAreUnknown) {
  setenv("HABITS", "draw", 1);
  RunJob(SessionSpec(2, "drawn", KeepsLedger()));
  const LedgerUse use = UseOf(CountedRuns(Runs()));
  EXPECT_EQ(use.unknown, 24);
  EXPECT_EQ(use.missing, 0);
  EXPECT_THAT(use.epochs, SizeIs(0));
}

TEST_F(LedgerTest, ADirectoryThatCannotBeWrittenEndsNothing) {
  std::filesystem::create_directories(JobDirectory());
  std::ofstream(JobDirectory() + "/samples") << "in the way";
  const auto daemon = RunJob(SessionSpec(2, "blocked", KeepsLedger()));
  EXPECT_EQ(Losses(*daemon, 0).size(), 24U);
  EXPECT_FALSE(ReadSampleLedger(JobDirectory()).ok());
}

}  // namespace
}  // namespace paceline
