#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/testing/written_checkpoint.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class CheckpointDirectoryTest : public testing::Test {
 protected:
  CheckpointDirectoryTest() {
    fs::remove_all(job_);
    fs::create_directories(job_);
  }

  std::string PathOf(const CheckpointKey& key) const { return job_ + "/" + CheckpointName(key); }

  void AddComplete(const CheckpointKey& key) {
    const absl::StatusOr<Manifest> manifest =
        WriteExampleCheckpoint(PathOf(key), key.step, key.generation);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
  }

  // Leaves what a save leaves that was killed before its commit.
  void AddIncomplete(const CheckpointKey& key) {
    AddComplete(key);
    fs::rename(PathOf(key) + "/" + kManifestName, PathOf(key) + "/" + PartName(0));
  }

  // Leaves what a removal leaves that was killed after removing a shard.
  void AddRemoved(const CheckpointKey& key) {
    AddComplete(key);
    fs::remove(PathOf(key) + "/" + ShardName(0, 2));
    fs::rename(PathOf(key), job_ + "/removed-" + CheckpointName(key));
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(job_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  // Returns the complete checkpoints in order.
  std::vector<std::string> Settle(int64_t generation) {
    const absl::StatusOr<std::vector<CompleteCheckpoint>> complete =
        SettleCheckpoints(job_, generation);
    EXPECT_TRUE(complete.ok()) << complete.status();
    std::vector<std::string> names;
    if (!complete.ok()) return names;
    for (const CompleteCheckpoint& checkpoint : *complete) names.push_back(checkpoint.name);
    return names;
  }

  const std::string job_ = testing::TempDir() + "/job-1";
};

using Strings = std::vector<std::string>;

TEST_F(CheckpointDirectoryTest, ManifestThatIsTooLargeIsToldAndNotRead) {
  AddComplete({20, 1});
  AddComplete({30, 1});
  const std::string path = PathOf({30, 1}) + "/" + kManifestName;
  fs::resize_file(path, uint64_t{1} << 40);  // Takes no disk space.
  std::vector<std::string> left_out;
  const absl::StatusOr<std::vector<CompleteCheckpoint>> complete =
      SettleCheckpoints(job_, 2, &left_out);
  ASSERT_TRUE(complete.ok()) << complete.status();
  ASSERT_EQ(complete->size(), 1);
  EXPECT_EQ(complete->front().step, 20);
  const std::string why = absl::StrCat(path, " has ", uint64_t{1} << 40,
                                       " bytes, and no more than ", kMaxManifestBytes, " are read");
  EXPECT_EQ(left_out, std::vector<std::string>{why});
  const absl::Status opened = CheckpointFiles::Open(PathOf({30, 1})).status();
  EXPECT_EQ(opened.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(opened.message(), why);
}

// Mapping such a file would end the reading process.
TEST_F(CheckpointDirectoryTest, ManifestThatIsCutWhileItIsReadHarmsNobody) {
  AddComplete({20, 1});
  const std::string path = PathOf({20, 1}) + "/" + kManifestName;
  fs::resize_file(path, kMaxManifestBytes);
  std::atomic<bool> over{false};
  std::thread cutter([&] {
    while (!over) {
      fs::resize_file(path, 0);
      fs::resize_file(path, kMaxManifestBytes);
    }
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(SettleCheckpoints(job_, 2)->empty());
    EXPECT_FALSE(CheckpointFiles::Open(PathOf({20, 1})).ok());
  }
  over = true;
  cutter.join();
}

TEST_F(CheckpointDirectoryTest, WhatIsNoFileIsLeftOutAndBlocksNobody) {
  AddComplete({20, 1});
  const std::string path = PathOf({20, 1}) + "/" + kManifestName;
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::vector<std::string> left_out;
  EXPECT_TRUE(SettleCheckpoints(job_, 2, &left_out)->empty());
  EXPECT_EQ(left_out, std::vector<std::string>{path + " is no regular file"});
}

TEST_F(CheckpointDirectoryTest, RemovesWhatLeadsElsewhereAndAnyDepth) {
  AddComplete({20, 1});
  AddIncomplete({30, 1});
  fs::create_directory_symlink(PathOf({20, 1}), PathOf({30, 1}) + "/linked");
  fs::create_directory_symlink(PathOf({20, 1}), job_ + "/removed-" + CheckpointName({40, 1}));
  int at = ::open(PathOf({30, 1}).c_str(), O_PATH);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(::mkdirat(at, "d", 0700), 0);
    const int next = ::openat(at, "d", O_PATH);
    ::close(at);
    at = next;
  }
  ::close(at);
  EXPECT_EQ(Settle(2), Strings{CheckpointName({20, 1})});
  EXPECT_EQ(Names(), Strings{CheckpointName({20, 1})});
  EXPECT_TRUE(CheckpointFiles::Open(PathOf({20, 1})).ok());
}

TEST_F(CheckpointDirectoryTest, TellsWhatIsComplete) {
  AddComplete({20, 2});
  AddComplete({20, 1});
  AddComplete({100, 3});
  AddComplete({3, 1});
  const absl::StatusOr<std::vector<CompleteCheckpoint>> complete = SettleCheckpoints(job_, 2);
  ASSERT_TRUE(complete.ok()) << complete.status();
  ASSERT_EQ(complete->size(), 4u);
  EXPECT_EQ((*complete)[0].name, CheckpointName({3, 1}));
  EXPECT_EQ((*complete)[1].name, CheckpointName({20, 1}));
  EXPECT_EQ((*complete)[2].name, CheckpointName({20, 2}));
  const CompleteCheckpoint& last = (*complete)[3];
  EXPECT_EQ(last.name, CheckpointName({100, 3}));
  EXPECT_EQ(last.step, 100);
  EXPECT_EQ(last.generation, 3);
  EXPECT_EQ(last.ranks, 2);
  EXPECT_EQ(last.created, 1'700'000'000);
  int64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(PathOf({100, 3}))) {
    bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_EQ(last.bytes, bytes);
}

TEST_F(CheckpointDirectoryTest, RemovesWhatEndedGenerationsLeft) {
  AddComplete({10, 1});
  AddIncomplete({20, 1});
  AddIncomplete({20, 2});
  AddIncomplete({30, 3});
  AddRemoved({5, 1});
  EXPECT_EQ(Settle(2), Strings{CheckpointName({10, 1})});
  const Strings left = {CheckpointName({10, 1}), CheckpointName({30, 3})};
  EXPECT_EQ(Names(), left);
  EXPECT_EQ(Settle(2), Strings{CheckpointName({10, 1})});
  EXPECT_EQ(Names(), left);
}

TEST_F(CheckpointDirectoryTest, LeavesAloneWhatIsNotItsOwn) {
  AddComplete({10, 1});
  std::ofstream(PathOf({10, 1}) + "/" + kManifestName) << "damaged";
  AddComplete({11, 1});
  fs::rename(PathOf({11, 1}), PathOf({12, 1}));  // The manifest has another step.
  std::ofstream(job_ + "/lock") << "owner";
  std::ofstream(job_ + "/final.safetensors") << "weights";
  std::ofstream(PathOf({13, 1})) << "a file";
  for (const char* name : {"step-20.g1", "removed-", "removed-mine", "notes"}) {
    fs::create_directory(job_ + "/" + name);
  }
  const Strings before = Names();
  EXPECT_EQ(Settle(9), Strings{});
  EXPECT_EQ(Names(), before);
}

TEST_F(CheckpointDirectoryTest, AMissingDirectoryIsToldAndNotMade) {
  fs::remove_all(job_);
  EXPECT_EQ(SettleCheckpoints(job_, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(job_));
  std::ofstream(job_) << "a file";
  EXPECT_EQ(SettleCheckpoints(job_, 1).status().code(), absl::StatusCode::kUnavailable);
  fs::remove(job_);
}

// While it lives, file modes bind this thread, even as root.
class BoundByModes {
 public:
  BoundByModes() {
    EXPECT_EQ(::syscall(SYS_capget, &header_, before_), 0);
    __user_cap_data_struct bound[2] = {before_[0], before_[1]};
    bound[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
    EXPECT_EQ(::syscall(SYS_capset, &header_, bound), 0);
  }
  ~BoundByModes() { EXPECT_EQ(::syscall(SYS_capset, &header_, before_), 0); }
  BoundByModes(const BoundByModes&) = delete;
  BoundByModes& operator=(const BoundByModes&) = delete;

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

TEST_F(CheckpointDirectoryTest, ADirectoryThatMayNotBeReadIsTold) {
  AddComplete({10, 1});
  AddIncomplete({20, 1});
  const BoundByModes bound;
  fs::permissions(job_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(SettleCheckpoints(job_, 1).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RemoveCheckpoint(PathOf({10, 1})).code(), absl::StatusCode::kPermissionDenied);
  fs::permissions(job_, fs::perms::none);
  EXPECT_EQ(SettleCheckpoints(job_, 1).status().code(), absl::StatusCode::kPermissionDenied);
  fs::permissions(job_, fs::perms::owner_all);
}

TEST_F(CheckpointDirectoryTest, RemovesOneAndWhatItsRemovalLeft) {
  AddComplete({10, 1});
  AddComplete({20, 1});
  EXPECT_TRUE(RemoveCheckpoint(PathOf({10, 1}) + "/").ok());
  EXPECT_EQ(Names(), Strings{CheckpointName({20, 1})});
  EXPECT_TRUE(RemoveCheckpoint(PathOf({10, 1})).ok());

  // A removal was killed after the rename.
  AddRemoved({10, 1});
  EXPECT_TRUE(RemoveCheckpoint(PathOf({10, 1})).ok());
  EXPECT_EQ(Names(), Strings{CheckpointName({20, 1})});

  // Then the checkpoint was made again.
  AddRemoved({20, 1});
  AddComplete({20, 1});
  EXPECT_TRUE(RemoveCheckpoint(PathOf({20, 1})).ok());
  EXPECT_EQ(Names(), Strings{});
}

TEST_F(CheckpointDirectoryTest, RemovesAnIncompleteOneAndLeavesACompleteOneAlone) {
  AddComplete({10, 1});
  AddIncomplete({20, 1});
  const auto kept = RemoveIncompleteCheckpoint(PathOf({10, 1}));
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_TRUE(kept->has_value());
  EXPECT_EQ((*kept)->name, CheckpointName({10, 1}));
  const auto removed = RemoveIncompleteCheckpoint(PathOf({20, 1}));
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_FALSE(removed->has_value());
  EXPECT_TRUE(RemoveIncompleteCheckpoint(PathOf({20, 1})).ok()) << "removed already";
  EXPECT_EQ(Names(), Strings{CheckpointName({10, 1})});
  EXPECT_TRUE(CheckpointFiles::Open(PathOf({10, 1})).ok());
}

TEST_F(CheckpointDirectoryTest, RemovesCheckpointsOnly) {
  fs::create_directory(job_ + "/notes");
  for (const std::string& path :
       {job_, job_ + "/notes", job_ + "/step-1.g1", std::string(), std::string("/")}) {
    EXPECT_EQ(RemoveCheckpoint(path).code(), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(Names(), Strings{"notes"});
}

// Runs `act` in a process that is killed at its n-th system call. False if it ended before.
bool RunKilledAt(int call, const std::function<void()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    act();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  // The process stops where a call begins and where it ends.
  for (int stops = 0; WIFSTOPPED(status) && stops < 2 * call - 1; ++stops) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) {
    EXPECT_TRUE(WIFEXITED(status));
    return false;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

TEST_F(CheckpointDirectoryTest, KilledAtAnyCallItLeavesNoHalfCheckpoint) {
  // With this many shards, the file system probably lists one of them before the manifest.
  Manifest many_shards = ExampleManifest(2, 1);
  many_shards.ranks = 16;
  const std::string bytes(16, 'x');
  const Safetensor rows = {"model/rows", "U8", {16}, bytes};
  int call = 0;
  bool killed = true;
  while (killed) {
    fs::remove_all(job_);
    AddIncomplete({1, 1});
    ASSERT_TRUE(WriteCheckpoint(PathOf({2, 1}), many_shards, {rows}).ok());
    AddComplete({3, 1});
    AddRemoved({4, 1});
    killed = RunKilledAt(++call, [this] {
      RemoveCheckpoint(PathOf({2, 1})).IgnoreError();
      SettleCheckpoints(job_, 1).status().IgnoreError();
    });

    const Strings complete = Settle(1);
    ASSERT_FALSE(complete.empty());
    EXPECT_EQ(complete.back(), CheckpointName({3, 1}));
    EXPECT_EQ(Names(), complete) << call;
    for (const std::string& name : complete) {
      EXPECT_TRUE(CheckpointFiles::Open(job_ + "/" + name).ok()) << name << " at call " << call;
    }
  }
  EXPECT_EQ(Names(), Strings{CheckpointName({3, 1})});
  EXPECT_GT(call, 20);
}

}  // namespace
}  // namespace paceline
