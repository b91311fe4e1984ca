#include "worker/trainer/checkpoint/shard_writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/trainer/checkpoint/testing/small_disk.h"

namespace paceline {
namespace {

// Bytes at an address that is aligned for O_DIRECT.
class Contents {
 public:
  explicit Contents(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<char*>(std::aligned_alloc(
            kDirectAlignment, (bytes / kDirectAlignment + 1) * kDirectAlignment))) {
    for (size_t i = 0; i < bytes; ++i) data_[i] = static_cast<char>(i * i >> 3);
  }
  ~Contents() { std::free(data_); }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  absl::string_view view() const { return {data_, bytes_}; }

 private:
  const size_t bytes_;
  char* const data_;
};

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Sizes near multiples of pieces and of O_DIRECT's units.
const std::vector<size_t> kSizes = {0, 1, 4096, 4097, (4 << 20) - 1, (4 << 20) + 4096, 9'000'001};

TEST(ShardWriterTest, FilesOfAnySizeHoldTheirBytes) {
  for (size_t size : kSizes) {
    const Contents contents(size);
    const std::string path = testing::TempDir() + "/any_size";
    ASSERT_TRUE(WriteShard(path, contents.view(), {}).ok()) << size;
    EXPECT_TRUE(Read(path) == contents.view()) << size;
    ::unlink(path.c_str());
  }
}

TEST(ShardWriterTest, SoDoFilesWithoutDirectWrites) {
  const Contents contents(9'000'001);
  const std::string in_memory = "/dev/shm/paceline_shard_writer_test";
  ASSERT_TRUE(WriteShard(in_memory, contents.view(), {}).ok());
  EXPECT_TRUE(Read(in_memory) == contents.view());
  ::unlink(in_memory.c_str());

  const std::string path = testing::TempDir() + "/not_aligned";
  ASSERT_TRUE(WriteShard(path, contents.view().substr(8), {}).ok());
  EXPECT_TRUE(Read(path) == contents.view().substr(8));
}

TEST(ShardWriterTest, NothingIsOverwritten) {
  const std::string path = testing::TempDir() + "/there";
  const Contents first(20'000);
  ASSERT_TRUE(WriteShard(path, first.view(), {}).ok());
  EXPECT_FALSE(WriteShard(path, Contents(10'000).view(), {}).ok());
  EXPECT_TRUE(Read(path) == first.view());
}

TEST(ShardWriterTest, NothingIsWrittenBeforeItIsThere) {
  const Contents contents(9'000'001);
  std::string late(contents.view().size(), '\0');
  size_t there = 0;
  ShardWriteOptions options;
  options.wait = [&](size_t end) {
    EXPECT_LE(end, late.size());
    std::copy(contents.view().begin() + there, contents.view().begin() + end, &late[there]);
    there = end;
  };
  const std::string path = testing::TempDir() + "/late";
  ASSERT_TRUE(WriteShard(path, late, options).ok());
  EXPECT_TRUE(Read(path) == contents.view());
}

TEST(ShardWriterTest, KeepsToALimit) {
  const Contents contents(9'000'000);
  ShardWriteOptions options;
  options.bytes_per_second = 30e6;
  const absl::Time begin = absl::Now();
  ASSERT_TRUE(WriteShard(testing::TempDir() + "/limited", contents.view(), options).ok());
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(300));
}

TEST(ShardWriterTest, AMissingDirectoryIsNamed) {
  const std::string path = testing::TempDir() + "/nowhere/shard";
  const absl::Status status = WriteShard(path, Contents(10).view(), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  EXPECT_EQ(MakeDirectory("/dev/null/shard", 1).code(), absl::StatusCode::kUnavailable);
}

TEST(ShardWriterTest, ADirectoryIsMadeOnce) {
  const std::string path = testing::TempDir() + "/made";
  EXPECT_TRUE(MakeDirectory(path + "/below", 1).ok()) << "with the one that holds it";
  EXPECT_TRUE(MakeDirectory(path, 0).ok());
  EXPECT_TRUE(Exists(path + "/."));
  const std::string gone = testing::TempDir() + "/unmounted";
  EXPECT_EQ(MakeDirectory(gone + "/job-1/step", 1).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(Exists(gone + "/."));
  EXPECT_TRUE(MakeDirectory(gone + "/job-1/step", 2).ok());
}

TEST(ShardWriterTest, AFileThatMustNotBeSoLargeIsRemoved) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {5'000'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string path = testing::TempDir() + "/too_large";
  const absl::Status status = WriteShard(path, Contents(9'000'001).view(), {});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_FALSE(Exists(path));
}

TEST(ShardWriterTest, AFullDiskAndAReadOnlyOneAreTold) {
  SmallDisk disk;
  if (!disk.is_there()) GTEST_SKIP() << "this machine lets nobody mount";
  const std::string path = disk.directory() + "/shard";
  const absl::Status full = WriteShard(path, Contents(9'000'001).view(), {});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_FALSE(Exists(path));
  ASSERT_TRUE(WriteShard(path, Contents(1'000'000).view(), {}).ok());

  disk.MakeReadOnly();
  const absl::Status read_only = WriteShard(path + "2", Contents(10).view(), {});
  EXPECT_EQ(read_only.code(), absl::StatusCode::kPermissionDenied) << read_only;
  EXPECT_EQ(MakeDirectory(disk.directory() + "/d", 1).code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace paceline
