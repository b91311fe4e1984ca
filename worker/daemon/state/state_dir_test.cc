#include "worker/daemon/state/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
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

TEST_F(StateDirTest, NobodyElseReadsIt) {
  const auto mode = [](const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  };
  ::umask(0);
  ASSERT_EQ(::chmod(paths_.state_dir.c_str(), 0755), 0);
  ASSERT_TRUE(CloseStateDir(paths_.state_dir, /*trainers_pass=*/true).ok());
  EXPECT_EQ(mode(paths_.state_dir), 0711);
  ASSERT_TRUE(CloseStateDir(paths_.state_dir, /*trainers_pass=*/false).ok());
  EXPECT_EQ(mode(paths_.state_dir), 0700);
  ASSERT_TRUE(NodeIdentity::Load(paths_).ok());
  EXPECT_EQ(mode(paths_.NodeFile()), 0600);
  // Earlier versions left this mode.
  ASSERT_EQ(::chmod(paths_.NodeFile().c_str(), 0644), 0);
  ASSERT_TRUE(NodeIdentity::Load(paths_).ok());
  EXPECT_EQ(mode(paths_.NodeFile()), 0600);
  ASSERT_EQ(::chmod(paths_.state_dir.c_str(), 0777), 0);
  EXPECT_EQ(CloseStateDir(paths_.state_dir, true).code(), absl::StatusCode::kPermissionDenied);
  ::umask(022);
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

class DirsAsideTest : public StateDirTest {
 protected:
  DirsAsideTest() { EXPECT_TRUE(NodeIdentity::Load(paths_).ok()); }

  void MakeDir(int files) {
    fs::create_directories(paths_.LogDir(id_));
    for (int i = 0; i < files; ++i) {
      std::ofstream(absl::StrCat(paths_.OwnDir(id_), "/", i)) << "x";
    }
  }
  size_t Dirs() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(paths_.TrainersDir()), {}));
  }

  const TrainerId id_{JobId("job-1"), Generation(1), Rank(0)};
};

TEST_F(DirsAsideTest, DirIsGoneAtOnceAndItsFilesLater) {
  MakeDir(3);
  ASSERT_TRUE(SetDirAside(paths_.TrainerDir(id_)).ok());
  EXPECT_FALSE(fs::exists(paths_.TrainerDir(id_)));
  EXPECT_TRUE(ListTrainerDirs(paths_)->empty());
  EXPECT_EQ(Dirs(), 1);
  // The same trainer again, before the first dir was removed.
  MakeDir(1);
  ASSERT_TRUE(SetDirAside(paths_.TrainerDir(id_)).ok());
  ASSERT_TRUE(SetDirAside(paths_.TrainerDir(id_)).ok()) << "it is gone already";
  EXPECT_EQ(Dirs(), 2);
  MakeDir(1);
  const std::atomic<bool> stop{false};
  RemoveDirsAside(paths_, stop);
  EXPECT_EQ(ListTrainerDirs(paths_)->size(), 1);
  EXPECT_EQ(Dirs(), 1);
}

TEST_F(DirsAsideTest, WhatOneDaemonDoesNotComeToTheNextOneRemoves) {
  MakeDir(3);
  ASSERT_TRUE(SetDirAside(paths_.TrainerDir(id_)).ok());
  const std::atomic<bool> stopped{true};
  RemoveDirsAside(paths_, stopped);
  EXPECT_EQ(Dirs(), 1);
  const std::atomic<bool> stop{false};
  RemoveDirsAside(paths_, stop);
  EXPECT_EQ(Dirs(), 0);
}

TEST_F(DirsAsideTest, LinksInItAreNotFollowed) {
  MakeDir(0);
  fs::create_directory(paths_.state_dir + "/precious");
  std::ofstream(paths_.state_dir + "/precious/file") << "x";
  fs::remove(paths_.LogDir(id_));
  fs::create_directory_symlink(paths_.state_dir + "/precious", paths_.LogDir(id_));
  ASSERT_TRUE(SetDirAside(paths_.TrainerDir(id_)).ok());
  const std::atomic<bool> stop{false};
  RemoveDirsAside(paths_, stop);
  EXPECT_EQ(Dirs(), 0);
  EXPECT_TRUE(fs::exists(paths_.state_dir + "/precious/file"));
}

TEST_F(DirsAsideTest, MoreFilesThanATurnTakesAreRemoved) {
  MakeDir(12'000);
  ASSERT_TRUE(SetDirAside(paths_.TrainerDir(id_)).ok());
  const std::atomic<bool> stop{false};
  RemoveDirsAside(paths_, stop);
  EXPECT_EQ(Dirs(), 0);
}

}  // namespace
}  // namespace paceline
