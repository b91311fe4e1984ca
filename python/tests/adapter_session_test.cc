// The Trainers of transformers and Lightning as the ranks of a job, in real processes
// (hf_script.py, lightning_script.py): ranks are lost, and the job stops and goes on from a
// checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "python/tests/session_fixture.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::HasSubstr;

class AdapterSessionTest : public SessionFixture {
 protected:
  explicit AdapterSessionTest(const std::string& script) : script_(script) {}

  void SetUp() override {
    SessionFixture::SetUp();
    setenv("SCRIPT", script_.c_str(), /*overwrite=*/1);
  }
  void TearDown() override {
    for (const char* name : {"SCRIPT", "HABITS"}) unsetenv(name);
    SessionFixture::TearDown();
  }

  // Runs three ranks with a checkpoint at this step, and then goes on from it.
  std::unique_ptr<FakeDaemon> SaveAndGoOn(const std::string& saves, int step) {
    const std::unique_ptr<FakeDaemon> undisturbed =
        RunUndisturbedSession(3, absl::StrCat("checkpoint { directory: '", directory_,
                                              "/checkpoints' at_end: false ", saves, " } "));
    unsetenv("HABITS");
    const v1::JobSpec spec = SessionSpec(3, "resumed", "");
    std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(spec, /*generation=*/2,
                   absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/",
                                CheckpointName({step, 1})));
    EXPECT_TRUE(daemon->Serve()) << daemon->Log(0);
    ExpectSame(*undisturbed, *daemon, {0, 1, 2}, "resumed");
    EXPECT_EQ(Losses(*daemon, 0).begin()->first, step + 1);
    return daemon;
  }

  void StopTwoRanks() {
    const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(SessionSpec(2, "stopped", "steps: 1000000 "));
    WaitForSteps(*daemon, 0, 5);
    for (const int rank : {0, 1}) daemon->Stop(rank);
    for (const int rank : {0, 1}) {
      WaitForEnd(*daemon, rank);
      EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
      EXPECT_THAT(daemon->Log(rank), HasSubstr("the script has ended"));
    }
  }

 private:
  const std::string script_;
};

class HfSessionTest : public AdapterSessionTest {
 protected:
  HfSessionTest() : AdapterSessionTest("python/tests/hf_script.py") {}
};

class LightningSessionTest : public AdapterSessionTest {
 protected:
  LightningSessionTest() : AdapterSessionTest("python/tests/lightning_script.py") {}
};

TEST_F(HfSessionTest, ReportsAndEvaluatesAsASession) {
  const std::unique_ptr<FakeDaemon> daemon = RunUndisturbedSession(2, "evaluation { every: 10 } ");
  EXPECT_EQ(daemon->status(0).figures().step(), 24);
  EXPECT_EQ(daemon->status(0).evaluation().step(), 24);
  EXPECT_EQ(Losses(*daemon, 0).size(), 24U);
  EXPECT_EQ(daemon->status(0).figures().reported_size(), 3);  // Loss, learning rate and norm.
  EXPECT_THAT(daemon->Log(1), HasSubstr("logged steps 4 8 12 16 20 24"));
}

TEST_F(HfSessionTest, ASpareTakesOverInAnyPhaseOfAStep) {
  DieAndCompare({"begin 0", "backward 6", "before_update 11", "updated 17"});
}

TEST_F(HfSessionTest, ASpareTakesOverWhereTokensAreCounted) {
  setenv("HABITS", "tokens", 1);
  DieAndCompare({"backward 7", "evaluation 0"}, "accumulation_steps: 2 evaluation { every: 12 } ");
}

TEST_F(HfSessionTest, GoesOnExactlyFromACheckpointThatTheTrainerAsksFor) {
  setenv("HABITS", "save", 1);
  const std::unique_ptr<FakeDaemon> daemon = SaveAndGoOn("", 8);
  EXPECT_THAT(daemon->Log(0), HasSubstr("logged steps 4 8 12 16 20 24"));
}

TEST_F(HfSessionTest, StopsWhenAsked) { StopTwoRanks(); }

TEST_F(LightningSessionTest, ASpareTakesOverInAnyPhaseOfAStep) {
  DieAndCompare({"forward 0", "backward 6", "before_update 11", "updated 18"});
}

TEST_F(LightningSessionTest, GoesOnExactlyFromACheckpoint) { SaveAndGoOn("every_steps: 12", 12); }

TEST_F(LightningSessionTest, StopsWhenAsked) { StopTwoRanks(); }

}  // namespace
}  // namespace paceline
