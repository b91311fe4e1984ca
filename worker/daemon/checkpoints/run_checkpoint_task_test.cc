#include "worker/daemon/checkpoints/run_checkpoint_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/testing/written_checkpoint.h"
#include "worker/daemon/state/job_user.h"
#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunCheckpointTaskTest : public ::testing::Test {
 protected:
  RunCheckpointTaskTest() { fs::remove_all(job_); }

  void Write(const CheckpointKey& key) const {
    ASSERT_TRUE(WriteExampleCheckpoint(PathOf(key), key.step, key.generation).ok());
  }

  std::string PathOf(const CheckpointKey& key) const { return job_ + "/" + CheckpointName(key); }

  static v1::CheckpointTaskResult Run(v1::CheckpointTask::Kind kind, const std::string& directory) {
    v1::CheckpointTask task;
    task.set_kind(kind);
    task.set_directory(directory);
    task.set_generation(2);
    const v1::CheckpointTaskResult result = RunCheckpointTask(task);
    EXPECT_EQ(result.task().SerializeAsString(), task.SerializeAsString());
    return result;
  }

  const std::string job_ = ::testing::TempDir() + "/job-1";
};

TEST_F(RunCheckpointTaskTest, SettlingTellsWhatIsCompleteAndRemovesTheRest) {
  Write({20, 2});
  Write({5, 1});
  fs::create_directories(PathOf({30, 2}));
  fs::create_directories(PathOf({30, 3}));
  const v1::CheckpointTaskResult result = Run(v1::CheckpointTask::SETTLE, job_);
  EXPECT_EQ(result.error(), "");
  ASSERT_EQ(result.found_size(), 2);
  EXPECT_EQ(result.found(0).name(), CheckpointName({5, 1}));
  EXPECT_EQ(result.found(1).name(), CheckpointName({20, 2}));
  EXPECT_EQ(result.found(1).step(), 20);
  EXPECT_EQ(result.found(1).generation(), 2);
  EXPECT_EQ(result.found(1).ranks(), 2);
  EXPECT_GT(result.found(1).bytes(), 100);
  EXPECT_GT(result.found(1).create_time().seconds(), 0);
  EXPECT_FALSE(fs::exists(PathOf({30, 2})));
  EXPECT_TRUE(fs::exists(PathOf({30, 3}))) << "of a later generation";
}

TEST_F(RunCheckpointTaskTest, NothingIsFoundWhereNothingWasSaved) {
  const v1::CheckpointTaskResult result = Run(v1::CheckpointTask::SETTLE, job_);
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.found_size(), 0);
}

TEST_F(RunCheckpointTaskTest, MissingDirectoryIsAnErrorWhereCheckpointsAreKnown) {
  v1::CheckpointTask task;
  task.set_kind(v1::CheckpointTask::SETTLE);
  task.set_directory(job_);
  task.set_must_exist(true);
  EXPECT_THAT(RunCheckpointTask(task).error(), HasSubstr(job_ + " is missing here"));
  fs::create_directories(job_);
  EXPECT_EQ(RunCheckpointTask(task).error(), "");
}

TEST_F(RunCheckpointTaskTest, RemnantsThatAreCompleteAfterAllStay) {
  Write({20, 2});
  fs::create_directories(PathOf({30, 2}));
  v1::CheckpointTask task;
  task.set_kind(v1::CheckpointTask::REMOVE);
  task.set_incomplete_only(true);
  for (const CheckpointKey& key : {CheckpointKey{20, 2}, CheckpointKey{30, 2}}) {
    task.set_directory(PathOf(key));
    const v1::CheckpointTaskResult result = RunCheckpointTask(task);
    EXPECT_EQ(result.error(), "");
    EXPECT_EQ(result.found_size(), key.step == 20 ? 1 : 0) << "it is reported";
  }
  EXPECT_TRUE(fs::exists(PathOf({20, 2}) + "/" + kManifestName));
  EXPECT_FALSE(fs::exists(PathOf({30, 2})));
}

TEST_F(RunCheckpointTaskTest, RemovingTakesOneAway) {
  Write({20, 2});
  Write({5, 1});
  EXPECT_EQ(Run(v1::CheckpointTask::REMOVE, PathOf({20, 2})).error(), "");
  EXPECT_FALSE(fs::exists(PathOf({20, 2})));
  EXPECT_TRUE(fs::exists(PathOf({5, 1})));
}

TEST_F(RunCheckpointTaskTest, ErrorsAreInTheResult) {
  fs::create_directories(job_ + "/mine");
  EXPECT_THAT(Run(v1::CheckpointTask::REMOVE, job_ + "/mine").error(), HasSubstr("mine"));
  EXPECT_TRUE(fs::exists(job_ + "/mine"));
  EXPECT_THAT(Run(v1::CheckpointTask::KIND_UNSPECIFIED, job_).error(),
              HasSubstr("no task of kind 0"));
  // The message must be UTF-8 even when the path is not.
  const std::string latin = job_ + "/\xfc";
  EXPECT_EQ(Run(v1::CheckpointTask::REMOVE, latin).error().find('\xfc'), std::string::npos);
}

TEST_F(RunCheckpointTaskTest, DirectoryOutsideOfTheRootsIsLeftAlone) {
  Write({20, 2});
  v1::CheckpointTask task;
  task.set_kind(v1::CheckpointTask::REMOVE);
  task.set_directory(PathOf({20, 2}));
  const JobUser own = *FindJobUser("");
  const v1::CheckpointTaskResult refused = RunCheckpointTaskAs(own, {"/nonexistent"}, task);
  EXPECT_THAT(refused.error(), HasSubstr("checkpoint.directory is " + PathOf({20, 2})));
  EXPECT_EQ(refused.task().directory(), task.directory());
  EXPECT_TRUE(fs::exists(PathOf({20, 2})));
  EXPECT_EQ(RunCheckpointTaskAs(own, {"/nonexistent", fs::canonical(job_)}, task).error(), "");
  EXPECT_FALSE(fs::exists(PathOf({20, 2})));
}

TEST_F(RunCheckpointTaskTest, WhatTheTrainersUserCannotRemoveStays) {
  PACELINE_NEEDS_OTHER_USERS();
  std::string root = "/tmp/run_checkpoint_task_test.XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  ASSERT_EQ(::chmod(root.c_str(), 0755), 0);
  v1::CheckpointTask task;
  task.set_kind(v1::CheckpointTask::REMOVE);
  task.set_directory(root + "/job-1/" + CheckpointName({20, 2}));
  ASSERT_TRUE(WriteExampleCheckpoint(task.directory(), 20, 2).ok());
  const auto error_as_nobody = [&] {
    std::string error;
    std::thread([&] {
      error = RunCheckpointTaskAs(*FindJobUser("nobody"), {}, task).error();
    }).join();
    return error;
  };
  EXPECT_THAT(error_as_nobody(), HasSubstr("Permission denied"));
  EXPECT_TRUE(fs::exists(task.directory()));
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    ASSERT_EQ(::lchown(entry.path().c_str(), kNobody, kNobody), 0);
  }
  EXPECT_EQ(error_as_nobody(), "");
  EXPECT_FALSE(fs::exists(task.directory()));
  fs::remove_all(root);
}

}  // namespace
}  // namespace paceline
