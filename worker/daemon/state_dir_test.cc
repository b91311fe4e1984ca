#include "worker/daemon/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "common/exit_codes.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class StateDirTest : public ::testing::Test {
 protected:
  StateDirTest() {
    paths_.state_dir = ::testing::TempDir() + "/state_dir_test.XXXXXX";
    EXPECT_NE(::mkdtemp(paths_.state_dir.data()), nullptr);
  }
  void WriteNodeFile(const std::string& text) { std::ofstream(paths_.NodeFile()) << text; }
  ExitCode LoadCode() { return StateExitCode(NodeIdentity::Load(paths_).status()); }

  NodePaths paths_;
};

TEST_F(StateDirTest, IdentityStaysTheSame) {
  auto first = NodeIdentity::Load(paths_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->node_uid().size(), 36);
  EXPECT_EQ(first->cluster_id(), "");
  ASSERT_TRUE(first->Join("cluster-1").ok());
  const auto second = NodeIdentity::Load(paths_);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->node_uid(), first->node_uid());
  EXPECT_EQ(second->cluster_id(), "cluster-1");
}

TEST_F(StateDirTest, DamagedIdentityIsNotOverwritten) {
  for (const char* text : {"", "{", "[]", "{\"version\": 1}", "{\"version\": \"1\"}",
                           "{\"version\":1,\"node_uid\":\"\",\"cluster_id\":\"\"}"}) {
    WriteNodeFile(text);
    EXPECT_EQ(LoadCode(), kExitStateDamaged) << text;
    std::ifstream file(paths_.NodeFile());
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
  }
}

TEST_F(StateDirTest, NewerIdentityIsRefused) {
  WriteNodeFile("{\"version\": 2, \"everything\": \"different\"}");
  EXPECT_EQ(LoadCode(), kExitStateFromNewer);
}

TEST_F(StateDirTest, LostIdentityIsNotReplaced) {
  ASSERT_TRUE(NodeIdentity::Load(paths_).ok());
  fs::remove(paths_.NodeFile());
  EXPECT_EQ(LoadCode(), kExitStateDamaged);
  EXPECT_FALSE(fs::exists(paths_.NodeFile()));
}

TEST_F(StateDirTest, FailuresHaveTheirOwnExitCodes) {
  EXPECT_EQ(StateExitCode(absl::PermissionDeniedError("")), kExitStateNotWritable);
  EXPECT_EQ(StateExitCode(absl::FailedPreconditionError("")), kExitStateInUse);
  EXPECT_EQ(StateExitCode(absl::ResourceExhaustedError("full")), kExitNoSpace);
}

TEST_F(StateDirTest, ListsTrainerDirsOldestFirst) {
  ASSERT_TRUE(NodeIdentity::Load(paths_).ok());
  const auto now = fs::file_time_type::clock::now();
  int age = 0;
  for (const char* name : {"job-b.1.0", "job-a.1.1", "job-a.1.0", "other"}) {
    fs::create_directory(paths_.TrainersDir() + "/" + name);
    fs::last_write_time(paths_.TrainersDir() + "/" + name, now - std::chrono::hours(++age));
  }
  const auto ids = ListTrainerDirs(paths_);
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), 3);
  EXPECT_EQ(TrainerName((*ids)[0]), "job-a.1.0");
  EXPECT_EQ(TrainerName((*ids)[2]), "job-b.1.0");
}

}  // namespace
}  // namespace paceline
