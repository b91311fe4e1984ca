#include "worker/trainer/object_store/block_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr size_t kBlockBytes = 100;
constexpr int64_t kKeptBytes = kBlockBytes + 8;  // With the checksum.

std::string NewDirectory() {
  std::string name = testing::TempDir() + "/cache-XXXXXX";
  EXPECT_NE(::mkdtemp(&name[0]), nullptr);
  return name + "/objects";
}

// On a disk that has room for all.
std::optional<DiskSpace> LargeDisk(const std::string& /*directory*/) {
  return DiskSpace{int64_t{1} << 40, int64_t{1} << 40};
}

std::unique_ptr<BlockCache> Open(const std::string& directory, int64_t blocks,
                                 const DiskSpaceOf& disk_space = LargeDisk) {
  absl::StatusOr<std::unique_ptr<BlockCache>> cache =
      BlockCache::Open(directory, blocks * kKeptBytes, disk_space);
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

BlockName Name(int64_t number) { return {"abc", number}; }

std::string Bytes(int64_t number) {
  return std::string(kBlockBytes, static_cast<char>('a' + number % 26));
}

bool Has(BlockCache& cache, int64_t number) {
  std::string out(kBlockBytes, '\0');
  if (!cache.Read(Name(number), kBlockBytes, 0, absl::MakeSpan(&out[0], out.size()))) return false;
  EXPECT_EQ(out, Bytes(number));
  return true;
}

void Keep(BlockCache& cache, int64_t number) {
  const absl::Status status = cache.Keep(Name(number), Bytes(number));
  EXPECT_TRUE(status.ok()) << status;
}

int64_t BytesIn(const std::string& directory) {
  int64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/blocks")) {
    sum += static_cast<int64_t>(entry.file_size());
  }
  return sum;
}

std::string PathOf(const std::string& directory, int64_t number) {
  return absl::StrCat(directory, "/blocks/", Name(number).Text());
}

// As if the block had been read last at this second.
void SetReadTime(const std::string& directory, int64_t number, time_t second) {
  const timespec times[2] = {{second, 0}, {second, 0}};
  EXPECT_EQ(::utimensat(AT_FDCWD, PathOf(directory, number).c_str(), times, 0), 0);
}

TEST(BlockCacheTest, GivesBackWhatWasKeptInPartsToo) {
  const std::unique_ptr<BlockCache> cache = Open(NewDirectory(), 4);
  EXPECT_FALSE(Has(*cache, 1));
  Keep(*cache, 1);
  EXPECT_TRUE(Has(*cache, 1));
  EXPECT_FALSE(Has(*cache, 2));
  char part[3];
  const std::string block = "0123456789";
  ASSERT_TRUE(cache->Keep({"digits", 0}, block).ok());
  ASSERT_TRUE(cache->Read({"digits", 0}, block.size(), 7, absl::MakeSpan(part, 3)));
  EXPECT_EQ(std::string(part, 3), "789");
}

TEST(BlockCacheTest, OtherProcessesSeeTheBlocks) {
  const std::string directory = NewDirectory();
  Keep(*Open(directory, 4), 1);
  EXPECT_TRUE(Has(*Open(directory, 4), 1));
}

TEST(BlockCacheTest, NeverExceedsItsLimitAndDropsWhatWasReadLongestAgo) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 10);
  for (int64_t number = 0; number < 10; ++number) {
    Keep(*cache, number);
    SetReadTime(directory, number, 1000 + number);
  }
  EXPECT_TRUE(Has(*cache, 0));  // Which counts as read now.
  Keep(*cache, 10);
  EXPECT_LE(BytesIn(directory), 10 * kKeptBytes);
  EXPECT_TRUE(Has(*cache, 0));
  EXPECT_TRUE(Has(*cache, 10));
  EXPECT_FALSE(Has(*cache, 1));
  EXPECT_TRUE(Has(*cache, 9));
}

TEST(BlockCacheTest, AReadTimeToComeIsThatOfAWrongClock) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 10);
  for (int64_t number = 0; number < 10; ++number) {
    Keep(*cache, number);
    SetReadTime(directory, number, 1000 + number);
  }
  const time_t to_come = ::time(nullptr) + 1'000'000;
  SetReadTime(directory, 8, to_come);
  SetReadTime(directory, 9, to_come);
  EXPECT_TRUE(Has(*cache, 8));  // Which counts as read now.
  Keep(*cache, 10);             // Two blocks go.
  EXPECT_TRUE(Has(*cache, 8));
  EXPECT_FALSE(Has(*cache, 9));
  EXPECT_FALSE(Has(*cache, 0));
  EXPECT_TRUE(Has(*cache, 1));
}

TEST(BlockCacheTest, ASumThatCannotBeIsCountedAnew) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 4);
  int64_t number = 0;
  while (number < 4) Keep(*cache, number++);
  for (const int64_t sum : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    std::ofstream(directory + "/lock", std::ios::binary)
        .write(reinterpret_cast<const char*>(&sum), sizeof(sum));
    Keep(*cache, number++);
    EXPECT_LE(BytesIn(directory), 4 * kKeptBytes) << sum;
    Keep(*cache, number++);
    EXPECT_LE(BytesIn(directory), 4 * kKeptBytes) << sum;
  }
}

TEST(BlockCacheTest, AProcessThatKeepsTheLockStopsNobody) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 4);
  Keep(*cache, 1);
  const int holder = ::open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(holder, LOCK_EX), 0);
  const absl::Status status = cache->Keep(Name(2), Bytes(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), directory)) << status;
  EXPECT_TRUE(Has(*Open(directory, 4), 1));
  ::close(holder);
  Keep(*cache, 2);
  EXPECT_TRUE(Has(*cache, 2));
}

TEST(BlockCacheTest, ADirectoryThatIsRemovedKeepsNothing) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 4);
  Keep(*cache, 1);
  std::filesystem::remove_all(directory);
  EXPECT_FALSE(Has(*cache, 1));
  EXPECT_FALSE(cache->Keep(Name(2), Bytes(2)).ok());
  EXPECT_FALSE(Has(*cache, 2));
}

TEST(BlockCacheTest, ALowerLimitHoldsFromTheNextOpening) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> first = Open(directory, 10);
  for (int64_t number = 0; number < 10; ++number) Keep(*first, number);
  const std::unique_ptr<BlockCache> second = Open(directory, 4);
  EXPECT_LE(BytesIn(directory), 4 * kKeptBytes);
}

TEST(BlockCacheTest, ABlockLargerThanTheLimitIsNotKept) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 2);
  Keep(*cache, 1);
  const absl::Status status = cache->Keep(Name(2), std::string(1000, 'x'));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_LE(BytesIn(directory), 2 * kKeptBytes);
}

// A disk on which others write, too. One twentieth of it, two blocks, is to stay free.
struct SmallDisk {
  static constexpr int64_t kTotal = 40 * kKeptBytes;
  static constexpr int64_t kReserve = 2 * kKeptBytes;

  int64_t available() const { return kTotal - others - BytesIn(directory); }
  DiskSpaceOf space() const {
    return [this](const std::string&) { return DiskSpace{kTotal, available()}; };
  }

  const std::string directory = NewDirectory();
  int64_t others = 0;  // Bytes of others.
};

TEST(BlockCacheTest, OldestBlocksGoBeforeTheDiskIsFull) {
  SmallDisk disk;
  disk.others = 20 * kKeptBytes;
  const std::unique_ptr<BlockCache> cache = Open(disk.directory, 100, disk.space());
  ::testing::internal::CaptureStderr();
  for (int64_t number = 0; number < 60; ++number) {
    Keep(*cache, number);
    SetReadTime(disk.directory, number, 1000 + number);
    EXPECT_GE(disk.available(), SmallDisk::kReserve) << number;
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t first = said.find("object_cache_disk_full directory=" + disk.directory);
  ASSERT_NE(first, said.npos) << said;
  EXPECT_EQ(said.find("object_cache_disk_full", first + 1), said.npos) << "is said once";
  // Of the newest, nearly as many as there is room for.
  for (int64_t number = 0; number < 40; ++number) EXPECT_FALSE(Has(*cache, number)) << number;
  for (int64_t number = 45; number < 60; ++number) EXPECT_TRUE(Has(*cache, number)) << number;
}

TEST(BlockCacheTest, WhateverOthersWriteTheReserveStaysFreeOrNothingIsKept) {
  SmallDisk disk;
  const std::unique_ptr<BlockCache> cache = Open(disk.directory, 30, disk.space());
  std::mt19937 random(1);
  int refused = 0;
  for (int64_t number = 0; number < 500; ++number) {
    const int64_t most = SmallDisk::kTotal - BytesIn(disk.directory);
    disk.others = std::uniform_int_distribution<int64_t>(number % 2 == 0 ? 0 : most, most)(random);
    const absl::Status status = cache->Keep(Name(number), Bytes(number));
    EXPECT_LE(BytesIn(disk.directory), 30 * kKeptBytes);
    if (status.ok()) {
      EXPECT_GE(disk.available(), SmallDisk::kReserve);
      EXPECT_TRUE(Has(*cache, number));
      continue;
    }
    ++refused;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), disk.directory)) << status;
    EXPECT_EQ(BytesIn(disk.directory), 0) << "it gave up before its own blocks had gone";
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 500);
}

TEST(BlockCacheTest, OpeningGivesBackWhatOthersNeed) {
  SmallDisk disk;
  const std::unique_ptr<BlockCache> first = Open(disk.directory, 30, disk.space());
  for (int64_t number = 0; number < 30; ++number) Keep(*first, number);
  disk.others = disk.available();
  const std::unique_ptr<BlockCache> second = Open(disk.directory, 30, disk.space());
  EXPECT_GE(disk.available(), SmallDisk::kReserve);
  EXPECT_TRUE(BytesIn(disk.directory) > 0);
}

TEST(BlockCacheTest, OfALargeDiskNoMoreThanAGibibyteIsLeft) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 100, [&](const std::string&) {
    return DiskSpace{int64_t{1} << 40, (int64_t{1} << 30) + 3 * kKeptBytes - BytesIn(directory)};
  });
  for (int64_t number = 0; number < 3; ++number) Keep(*cache, number);
  EXPECT_EQ(BytesIn(directory), 3 * kKeptBytes);
  Keep(*cache, 3);
  EXPECT_LE(BytesIn(directory), 3 * kKeptBytes);
}

TEST(BlockCacheTest, ADiskOfUnknownSizeIsUsed) {
  const std::unique_ptr<BlockCache> cache =
      Open(NewDirectory(), 4, [](const std::string&) { return std::nullopt; });
  Keep(*cache, 1);
  EXPECT_TRUE(Has(*cache, 1));
  const std::optional<DiskSpace> own = OwnDiskSpace(testing::TempDir());
  ASSERT_TRUE(own.has_value());
  EXPECT_GT(own->total, 0);
  EXPECT_LE(own->available, own->total);
  EXPECT_FALSE(OwnDiskSpace("/nonexistent").has_value());
}

// A tmpfs may have none, and says 0.
TEST(BlockCacheTest, ADiskWithoutALimitIsUsed) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache =
      Open(directory, 4, [](const std::string&) { return DiskSpace{}; });
  for (int64_t number = 0; number < 4; ++number) Keep(*cache, number);
  EXPECT_EQ(BytesIn(directory), 4 * kKeptBytes);
}

TEST(BlockCacheTest, DamagedBlocksAreNotThere) {
  const std::string directory = NewDirectory();
  for (const int damage : {0, 1, 2}) {
    Keep(*Open(directory, 4), 1);
    if (damage == 0) std::filesystem::resize_file(PathOf(directory, 1), 50);
    if (damage == 1) std::ofstream(PathOf(directory, 1)) << std::string(kKeptBytes, '\0');
    if (damage == 2) {
      std::fstream file(PathOf(directory, 1), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(17);
      file << '!';
    }
    EXPECT_FALSE(Has(*Open(directory, 4), 1)) << damage;
    EXPECT_FALSE(std::filesystem::exists(PathOf(directory, 1))) << damage;
  }
}

// What a process remembers of the blocks that it has compared is bounded.
TEST(BlockCacheTest, AfterTwiceTheLimitABlockIsComparedAgain) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 4);
  Keep(*cache, 0);
  std::fstream(PathOf(directory, 0), std::ios::in | std::ios::out | std::ios::binary) << '!';
  int others = 0;
  for (std::string out(kBlockBytes, '\0');
       cache->Read(Name(0), kBlockBytes, 0, absl::MakeSpan(&out[0], out.size())); ++others) {
    EXPECT_EQ(out[0], '!') << "the block was compared before";
    ASSERT_LT(others, 100);
    Keep(*cache, others + 1);
    SetReadTime(directory, others + 1, 1000 + others);  // So that these go, and block 0 stays.
  }
  // Of the blocks that there is room for, twice as many are remembered.
  EXPECT_EQ(others, 8);
}

TEST(BlockCacheTest, WhatAKilledWriterLeftIsRemovedAndNothingElse) {
  const std::string directory = NewDirectory();
  Keep(*Open(directory, 4), 1);
  const std::string left = directory + "/blocks/.abc.2.1.1";
  std::ofstream(left) << std::string(2 * kBlockBytes, 'x');
  const std::unique_ptr<BlockCache> cache = Open(directory, 4);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(Has(*cache, 1));
}

// Another container's process has the same number, and has written as many blocks.
TEST(BlockCacheTest, ContainersCanShareIt) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> cache = Open(directory, 4);
  for (int count = 0; count < 1000; ++count) {
    std::ofstream(absl::StrCat(directory, "/blocks/.", Name(1).Text(), ".", ::getpid(), ".", count))
        << "";
  }
  Keep(*cache, 1);
  EXPECT_TRUE(Has(*cache, 1));
}

// All write at once, also more than fits, and none ever sees more than the limit.
TEST(BlockCacheTest, ProcessesShareTheLimit) {
  const std::string directory = NewDirectory();
  const std::unique_ptr<BlockCache> own = Open(directory, 8);
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      absl::StatusOr<std::unique_ptr<BlockCache>> cache =
          BlockCache::Open(directory, 8 * kKeptBytes, LargeDisk);
      bool good = cache.ok();
      for (int64_t number = 0; good && number < 60; ++number) {
        // The limit may be full of what others are writing.
        const absl::Status status = (*cache)->Keep(Name(number + child), Bytes(number + child));
        good = status.ok() || absl::IsResourceExhausted(status);
        std::string out(kBlockBytes, '\0');
        if ((*cache)->Read(Name(number), kBlockBytes, 0, absl::MakeSpan(&out[0], out.size()))) {
          good = good && out == Bytes(number);
        }
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(BytesIn(directory), 8 * kKeptBytes);
}

TEST(BlockCacheTest, OneFetchesABlockWhileOthersWait) {
  const std::unique_ptr<BlockCache> cache = Open(NewDirectory(), 4);
  const auto never = [] { return false; };
  std::atomic<bool> second_has_it{false};
  std::thread second;
  {
    const BlockCache::Turn turn = cache->WaitTurn(Name(1), absl::Hours(1), never);
    second = std::thread([&] {
      const BlockCache::Turn its = cache->WaitTurn(Name(1), absl::Hours(1), never);
      second_has_it = true;
    });
    // Who does not want to wait goes on without.
    const BlockCache::Turn none = cache->WaitTurn(Name(1), absl::ZeroDuration(), never);
    EXPECT_FALSE(second_has_it);
  }
  second.join();
  EXPECT_TRUE(second_has_it);
}

TEST(BlockCacheTest, ADirectoryThatOthersCanChangeIsRefused) {
  const std::string directory = NewDirectory();
  ASSERT_EQ(::mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
  const absl::Status open = BlockCache::Open(directory, 1000).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kFailedPrecondition) << open;
  EXPECT_TRUE(absl::StrContains(open.message(), "--object-cache")) << open;
  const absl::Status missing = BlockCache::Open(directory + "/a/b", 1000).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition) << missing;
}

}  // namespace
}  // namespace paceline
