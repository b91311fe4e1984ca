#include "worker/daemon/state/runtime_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class RuntimeDirTest : public ::testing::Test {
 protected:
  RuntimeDirTest() {
    root_ = ::testing::TempDir() + "/runtime_dir_test.XXXXXX";
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    path_ = root_ + "/a/b";
  }

  std::string root_;
  std::string path_;
};

TEST_F(RuntimeDirTest, IsPrivateAndGoesWhenEmpty) {
  {
    const auto dir = RuntimeDir::Open(path_);
    ASSERT_TRUE(dir.ok()) << dir.status();
    EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(RuntimeDirTest, StaysWithWhatIsInIt) {
  {
    const auto dir = RuntimeDir::Open(path_);
    std::ofstream(path_ + "/ring") << "x";
  }
  EXPECT_TRUE(fs::exists(path_ + "/ring"));
}

TEST_F(RuntimeDirTest, SecondOwnerIsRefused) {
  const auto dir = RuntimeDir::Open(path_);
  EXPECT_EQ(RuntimeDir::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RuntimeDirTest, DirUnderAFileIsRefused) {
  std::ofstream(root_ + "/file") << "x";
  EXPECT_EQ(RuntimeDir::Open(root_ + "/file/run").status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(RuntimeDirTest, OneThatOthersCanWriteIsRefusedAndLeftAlone) {
  fs::create_directories(path_);
  for (const fs::perms other : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(path_, fs::perms::owner_all | other);
    const auto dir = RuntimeDir::Open(path_);
    EXPECT_EQ(dir.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(dir.status().message()), HasSubstr("others can write it"));
  }
  EXPECT_TRUE(fs::exists(path_));
}

TEST_F(RuntimeDirTest, OneThatOthersCanListIsClosed) {
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  const auto dir = RuntimeDir::Open(path_);
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_all);
}

TEST_F(RuntimeDirTest, LinkIsRefused) {
  fs::create_directories(root_ + "/elsewhere");
  fs::create_directories(root_ + "/a");
  fs::create_directory_symlink(root_ + "/elsewhere", path_);
  const auto dir = RuntimeDir::Open(path_);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("it is a link"));
  EXPECT_TRUE(fs::exists(root_ + "/elsewhere"));
}

TEST_F(RuntimeDirTest, OneOfAnotherUserIsRefused) {
  PACELINE_NEEDS_OTHER_USERS();
  fs::create_directories(path_);
  ASSERT_EQ(::chown(path_.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(std::string(RuntimeDir::Open(path_).status().message()),
              HasSubstr("it belongs to user 65534, and this process is 0"));
}

TEST_F(RuntimeDirTest, GroupMayPassAndDoNoMore) {
  PACELINE_NEEDS_OTHER_USERS();
  const auto dir = RuntimeDir::Open(path_, kNobody);
  ASSERT_TRUE(dir.ok()) << dir.status();
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0710U);
  EXPECT_EQ(info.st_uid, ::geteuid());
  EXPECT_EQ(info.st_gid, kNobody);
}

}  // namespace
}  // namespace paceline
