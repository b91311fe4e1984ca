#include "common/state_lock/state_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>

namespace paceline {
namespace {

std::string Directory() {
  return ::testing::TempDir() + "/" +
         ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/a/b";
}

TEST(StateLockTest, MakesTheDirectoryAndNamesTheHolder) {
  EXPECT_EQ(StateLockHolder(Directory()), 0);
  auto lock = StateLock::Take(Directory());
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(StateLockHolder(Directory()), getpid());
}

TEST(StateLockTest, SecondHolderIsRefusedUntilTheFirstIsGone) {
  auto first = StateLock::Take(Directory());
  ASSERT_TRUE(first.ok());
  const absl::Status refused = StateLock::Take(Directory()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr(std::to_string(getpid())));
  { const StateLock gone = *std::move(first); }
  EXPECT_EQ(StateLockHolder(Directory()), 0) << "the old id must not count";
  EXPECT_TRUE(StateLock::Take(Directory()).ok());
}

TEST(StateLockTest, DirectoryThatCannotBeMadeIsNamed) {
  const std::string file = ::testing::TempDir() + "/plain_file";
  std::ofstream(file) << "x";
  const absl::Status status = StateLock::Take(file + "/state").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(file));
}

}  // namespace
}  // namespace paceline
