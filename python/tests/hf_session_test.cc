// transformers' Trainer as the ranks of a job, in real processes (hf_script.py): ranks are lost,
// and the job goes on from a checkpoint.
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

class HfSessionTest : public SessionFixture {
 protected:
  HfSessionTest() { variables_.push_back("SCRIPT"); }

  void SetUp() override {
    SessionFixture::SetUp();
    setenv("SCRIPT", "python/tests/hf_script.py", /*overwrite=*/1);
  }
  void TearDown() override {
    for (const char* name : {"SCRIPT", "HABITS"}) unsetenv(name);
    SessionFixture::TearDown();
  }
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

TEST_F(HfSessionTest, GoesOnExactlyFromACheckpoint) {
  setenv("HABITS", "save", 1);
  const std::unique_ptr<FakeDaemon> undisturbed = RunUndisturbedSession(
      3, absl::StrCat("checkpoint { directory: '", directory_, "/checkpoints' at_end: false } "));
  unsetenv("HABITS");
  const v1::JobSpec spec = SessionSpec(3, "resumed", "");
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(
      spec, /*generation=*/2,
      absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/", CheckpointName({8, 1})));
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
  ExpectSame(*undisturbed, *daemon, {0, 1, 2}, "resumed");
  EXPECT_EQ(Losses(*daemon, 0).begin()->first, 9);
  EXPECT_THAT(daemon->Log(0), HasSubstr("logged steps 4 8 12 16 20 24"));
}

}  // namespace
}  // namespace paceline
