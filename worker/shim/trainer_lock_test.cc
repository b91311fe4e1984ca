#include "worker/shim/trainer_lock.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <optional>

namespace paceline {
namespace {

std::string NewDir() {
  std::string dir = ::testing::TempDir() + "/trainer_lock_test.XXXXXX";
  EXPECT_NE(::mkdtemp(dir.data()), nullptr);
  return dir;
}

TEST(TrainerLockTest, DirWithoutALockIsNotAlive) {
  const auto processes = ReadTrainerLock(NewDir());
  ASSERT_TRUE(processes.ok());
  EXPECT_FALSE(processes->alive);
}

TEST(TrainerLockTest, HeldLockTellsTheProcesses) {
  const std::string dir = NewDir();
  const auto lock = TrainerLock::Take(dir);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_TRUE(ReadTrainerLock(dir)->alive);
  EXPECT_EQ(ReadTrainerLock(dir)->trainer, 0);
  ASSERT_TRUE(lock->WriteProcesses(12, 345).ok());
  EXPECT_TRUE(ReadTrainerLock(dir)->alive);
  EXPECT_EQ(ReadTrainerLock(dir)->shim, 12);
  EXPECT_EQ(ReadTrainerLock(dir)->trainer, 345);
}

TEST(TrainerLockTest, SecondTakerIsRefused) {
  const std::string dir = NewDir();
  const auto lock = TrainerLock::Take(dir);
  EXPECT_EQ(TrainerLock::Take(dir).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TrainerLockTest, InheritedLockOutlivesTheFirstHolder) {
  const std::string dir = NewDir();
  std::optional<TrainerLock> first = *TrainerLock::Take(dir);
  std::optional<TrainerLock> second(::dup(first->fd()));
  first.reset();
  EXPECT_TRUE(ReadTrainerLock(dir)->alive);
  second.reset();
  EXPECT_FALSE(ReadTrainerLock(dir)->alive);
}

TEST(TrainerLockTest, IdsOfAReleasedLockDoNotCount) {
  const std::string dir = NewDir();
  ASSERT_TRUE(TrainerLock::Take(dir)->WriteProcesses(12, 345).ok());
  EXPECT_FALSE(ReadTrainerLock(dir)->alive);
  EXPECT_EQ(ReadTrainerLock(dir)->trainer, 0);
}

}  // namespace
}  // namespace paceline
