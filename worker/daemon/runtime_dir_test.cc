#include "worker/daemon/runtime_dir.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace paceline {
namespace {

namespace fs = std::filesystem;

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

}  // namespace
}  // namespace paceline
