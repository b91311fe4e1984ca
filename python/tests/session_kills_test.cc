// Ranks of sessions killed in a save, in a rendezvous, and at random moments: the job computes what
// the undisturbed one does, bit by bit.
//
// PACELINE_KILLS: how many random kills (6); PACELINE_SEED: of which moments (1). `make kills`.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "python/tests/session_fixture.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

constexpr int kRanks = 3;

int NumberFromEnvironment(const char* name, int otherwise) {
  const char* text = getenv(name);
  int number = otherwise;
  EXPECT_TRUE(text == nullptr || absl::SimpleAtoi(text, &number)) << name << " is " << text;
  return number;
}

class SessionKillsTest : public SessionFixture {
 protected:
  std::string SaveEvery(int steps, const std::string& more = "") const {
    return absl::StrCat("checkpoint { directory: '", directory_,
                        "/checkpoints' every_steps: ", steps,
                        " at_end: false when_busy: WHEN_BUSY_WAIT ", more, " } ");
  }
  std::string SavesOfJob() const {
    return absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId());
  }

  // Rank 1 of three dies in step 11, and trainer 3 shall take its place. Then another process dies
  // in the middle of this function of the attachments (session_script.py), and 4 takes its place.
  void DieInRendezvous(const std::string& function) {
    const auto undisturbed = RunUndisturbedSession(kRanks, "");
    setenv("DIES", function.c_str(), 1);
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(kRanks, "disturbed", "", "backward 11 1 kill", /*spares=*/2));
    unsetenv("DIES");
    for (const int spare : {3, 4}) WaitUntilReady(*daemon, spare);
    WaitForEnd(*daemon, 1);
    std::vector<int> trainers = {0, 3, 2};
    daemon->SetMembers({trainers});
    const auto ended = [&](int trainer) { return daemon->ended(trainer); };
    ASSERT_TRUE(daemon->Serve([&] { return std::any_of(trainers.begin(), trainers.end(), ended); }))
        << daemon->Log(0);
    const auto victim = std::find_if(trainers.begin(), trainers.end(), ended);
    EXPECT_EQ(daemon->exit_signal(*victim), SIGKILL) << daemon->Log(*victim);
    EXPECT_EQ(*victim == 3, function == "put") << "trainer " << *victim << " has died";
    *victim = 4;
    daemon->SetMembers({trainers});
    WaitForSuccess(*daemon, trainers);
    ExpectSame(*undisturbed, *daemon, trainers, "disturbed");
  }

  // All that a lost trainer has told of its steps is that of the undisturbed job's rank.
  static void ExpectPart(const FakeDaemon& undisturbed, int rank, const FakeDaemon& daemon,
                         int number) {
    const std::map<int64_t, std::string> all = Losses(undisturbed, rank);
    for (const auto& [step, loss] : Losses(daemon, number)) {
      ASSERT_EQ(all.count(step), 1U) << "step " << step;
      EXPECT_EQ(loss, all.at(step)) << "step " << step << " of trainer " << number;
    }
  }
};

TEST_F(SessionKillsTest, InASaveASpareTakesOverAndTheNextSaveIsWhole) {
  const auto undisturbed = RunUndisturbedSession(kRanks, "");
  const auto daemon = MakeDaemon();
  // Some 20 kB for each rank: several seconds. Rank 1 trains no further meanwhile.
  daemon->Launch(SessionSpec(kRanks, "disturbed", SaveEvery(12, "write_limit_mb_s: 0.005"),
                             "begin 12 1 wait", /*spares=*/1));
  WaitUntilReady(*daemon, 3);
  const std::string cut_off = absl::StrCat(SavesOfJob(), "/", CheckpointName({12, 1}), "/");
  const std::string shard = cut_off + ShardName(1, kRanks);
  ASSERT_TRUE(daemon->Serve([&] { return !daemon->status(1).saves().empty(); })) << daemon->Log(1);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!std::filesystem::exists(shard) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_TRUE(std::filesystem::exists(shard)) << daemon->Log(1);
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  EXPECT_FALSE(std::filesystem::exists(cut_off + PartName(1))) << "the shard was written already";
  daemon->SetMembers({{0, 3, 2}});
  WaitForSuccess(*daemon, {0, 3, 2});
  ExpectSame(*undisturbed, *daemon, {0, 3, 2}, "disturbed");
  EXPECT_FALSE(CheckpointFiles::Open(cut_off).ok()) << "it is without a part";
  const auto damages = VerifyCheckpoint(absl::StrCat(SavesOfJob(), "/", CheckpointName({24, 2})),
                                        [](int64_t, int64_t) {});
  ASSERT_TRUE(damages.ok()) << damages.status();
  EXPECT_EQ(*damages, std::vector<std::string>());
}

TEST_F(SessionKillsTest, ANewcomerDiesWhileItTakesOverTheState) { DieInRendezvous("put"); }

TEST_F(SessionKillsTest, ASurvivorDiesWhileItHandsTheStateOver) { DieInRendezvous("take"); }

// Ranks that die in one generation after the other.
class RandomKillsTest : public SessionKillsTest {
 protected:
  struct Kill {
    int rank = 0;
    std::string moment;  // As the script reads it.
  };

  void SetUp() override {
    SessionKillsTest::SetUp();
    RecordProperty("kills", kills_);
    RecordProperty("seed", seed_);
  }

  // The next kills, each a few steps behind the one before, the first behind a few steps.
  std::vector<Kill> Draw(int count) {
    const std::vector<std::string> phases = {"begin",         "forward", "backward",
                                             "before_update", "updated", "end"};
    std::vector<Kill> kills;
    for (int i = 0; i < count; ++i) {
      Kill& kill = kills.emplace_back();
      kill.rank = Below(kRanks);
      // A dying rank is gone after at most two further steps.
      const int step = 3 + i * kStepsApart + Below(kStepsApart - 3);
      kill.moment =
          absl::StrCat(phases[static_cast<size_t>(Below(static_cast<int>(phases.size())))], " ",
                       step, " ", kill.rank, " kill:", 1 + Below(4000));
    }
    return kills;
  }

  static std::string StepsFor(int kills) {
    return absl::StrCat("steps: ", 6 + kills * kStepsApart, " ");
  }

  static std::string Moments(const std::vector<Kill>& kills) {
    return absl::StrJoin(
        kills, ",", [](std::string* out, const Kill& kill) { absl::StrAppend(out, kill.moment); });
  }

  int Below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

  // The trainer has died as it was told to.
  void WaitForKill(FakeDaemon& daemon, int number) {
    WaitForEnd(daemon, number);
    EXPECT_EQ(daemon.exit_signal(number), SIGALRM) << daemon.Log(number);
  }

  // Each victim is replaced, in turns by a spare and by a new process.
  void KillAndReplace(const FakeDaemon& undisturbed, const std::string& changes, int count) {
    const std::vector<Kill> kills = Draw(count);
    SCOPED_TRACE(absl::StrCat("seed ", seed_, ": ", Moments(kills)));
    const int spares = (count + 1) / 2;
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(kRanks, "disturbed", changes, Moments(kills), spares));
    for (int spare = kRanks; spare < kRanks + spares; ++spare) WaitUntilReady(*daemon, spare);
    std::vector<int> trainers = {0, 1, 2};
    for (int i = 0; i < count; ++i) {
      const int rank = kills[static_cast<size_t>(i)].rank;
      int& trainer = trainers[static_cast<size_t>(rank)];
      WaitForKill(*daemon, trainer);
      if (HasFatalFailure()) return;
      ExpectPart(undisturbed, rank, *daemon, trainer);
      trainer = i % 2 == 0 ? kRanks + i / 2 : daemon->Add(daemon->generation() + 1, rank);
      daemon->SetMembers({trainers});
    }
    WaitForSuccess(*daemon, trainers);
    ExpectSame(undisturbed, *daemon, trainers, "disturbed");
  }

  // After each kill, all ranks start again from the newest checkpoint, if there is one.
  void KillAndRestart(const FakeDaemon& undisturbed, const std::string& changes, int count) {
    const std::vector<Kill> kills = Draw(count);
    SCOPED_TRACE(absl::StrCat("seed ", seed_, ": ", Moments(kills)));
    std::filesystem::remove_all(directory_ + "/checkpoints");
    v1::JobSpec spec =
        SessionSpec(kRanks, "disturbed", changes + SaveEvery(kStepsApart / 2), Moments(kills));
    spec.clear_recovery();
    const auto daemon = MakeDaemon();
    daemon->Launch(spec);
    for (int i = 0; i < count; ++i) {
      WaitForKill(*daemon, kills[static_cast<size_t>(i)].rank);
      for (int rank = 0; rank < kRanks; ++rank) {
        WaitForEnd(*daemon, rank);
        if (HasFatalFailure()) return;
        ExpectPart(undisturbed, rank, *daemon, rank);
      }
      daemon->Launch(spec, /*generation=*/i + 2, NewestCheckpoint());
    }
    ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
    ExpectSame(undisturbed, *daemon, {0, 1, 2}, "disturbed");
  }

  // Path of the job's newest checkpoint; empty: it has none.
  std::string NewestCheckpoint() const {
    if (!std::filesystem::exists(SavesOfJob())) return "";
    const auto found = SettleCheckpoints(SavesOfJob(), /*generation=*/0);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || found->empty()) return "";
    return absl::StrCat(SavesOfJob(), "/", found->back().name);
  }

  static constexpr int kStepsApart = 12;
  const int seed_ = NumberFromEnvironment("PACELINE_SEED", 1);
  // Two thirds of them are replaced.
  const int kills_ = NumberFromEnvironment("PACELINE_KILLS", 6);
  std::mt19937 random_{static_cast<uint32_t>(seed_)};
};

TEST_F(RandomKillsTest, ReplacedByOthers) {
  constexpr int kPerJob = 4;
  const std::string changes = StepsFor(kPerJob);
  const auto undisturbed = RunUndisturbedSession(kRanks, changes);
  for (int left = kills_ - kills_ / 3; left > 0; left -= kPerJob) {
    KillAndReplace(*undisturbed, changes, std::min(left, kPerJob));
  }
}

TEST_F(RandomKillsTest, RestartedFromCheckpoints) {
  constexpr int kPerJob = 2;
  const std::string changes = StepsFor(kPerJob);
  const auto undisturbed = RunUndisturbedSession(kRanks, changes);
  for (int left = kills_ / 3; left > 0; left -= kPerJob) {
    KillAndRestart(*undisturbed, changes, std::min(left, kPerJob));
  }
}

}  // namespace
}  // namespace paceline
