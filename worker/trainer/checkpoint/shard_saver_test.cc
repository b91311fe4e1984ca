#include "worker/trainer/checkpoint/shard_saver.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/testing/small_disk.h"
#include "worker/trainer/comm/cpu_platform.h"

namespace paceline {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string NewDirectory() {
  std::string directory = testing::TempDir() + "/job.XXXXXX";
  EXPECT_NE(::mkdtemp(directory.data()), nullptr);
  return directory;
}

Manifest Part(int64_t step, int ranks) {
  Manifest part;
  part.job_id = "j-1";
  part.generation = 1;
  part.step = step;
  part.ranks = ranks;
  part.job_spec = "{}";
  return part;
}

ShardEntry Whole(const std::string& name, const at::Tensor& tensor) {
  return {name, tensor.sizes().vec(), 0, tensor};
}

at::Tensor Floats(int64_t count, float first = 0) {
  return at::arange(first, first + static_cast<float>(count), at::kFloat);
}

std::string BytesOf(const at::Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
}

// The outcome of a save.
struct Outcome {
  absl::Notification done;
  ShardResult result;

  std::function<void(const ShardResult&)> Recorder() {
    return [this](const ShardResult& its_result) {
      result = its_result;
      // A deep copy: sanitizers do not see Abseil's reference counts.
      result.status = absl::Status(its_result.status.code(), its_result.status.message());
      done.Notify();
    };
  }
};

absl::Status Commit(ShardSaver& saver, const std::string& directory) {
  absl::Status committed;
  absl::Notification done;
  saver.Commit(directory, [&](const absl::Status& status, double seconds) {
    committed = status;
    EXPECT_GE(seconds, 0);
    done.Notify();
  });
  done.WaitForNotification();
  return committed;
}

// Saves everything and waits.
ShardResult SaveAndWait(ShardSaver& saver, const std::string& directory, const Manifest& part,
                        const std::vector<ShardEntry>& entries) {
  Outcome outcome;
  saver.Begin(directory, part, entries, {}, outcome.Recorder());
  saver.BeforeChange();
  outcome.done.WaitForNotification();
  return outcome.result;
}

class ShardSaverTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }  // Torch's threads confuse sanitizers.

  CpuPlatform platform_;
  const std::string job_ = NewDirectory();
  const std::string directory_ = job_ + "/step-000000000007.g1";
};

TEST_F(ShardSaverTest, WritesBelowTheAllowedRootsAlone) {
  ShardSaver::Options options;
  options.roots = {NewDirectory()};
  ShardSaver saver(platform_, options);
  const ShardResult refused =
      SaveAndWait(saver, directory_, Part(7, 1), {Whole("model/w", Floats(3))});
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status)) << refused.status;
  EXPECT_FALSE(Exists(directory_));
  const std::string inside = options.roots[0] + "/step-000000000007.g1";
  EXPECT_TRUE(SaveAndWait(saver, inside, Part(7, 1), {Whole("model/w", Floats(3))}).status.ok());
}

TEST_F(ShardSaverTest, HoldsWhatTheTensorsWereWhenItBegan) {
  ShardSaver saver(platform_, {});
  at::Tensor large = Floats(3'000'001);
  at::Tensor statistics = Floats(64, 5);
  const std::map<std::string, std::string> before = {{"large", BytesOf(large)},
                                                     {"statistics", BytesOf(statistics)}};
  Outcome outcome;
  const int64_t bytes = saver.Begin(directory_, Part(7, 1), {Whole("large", large)},
                                    {Whole("statistics", statistics)}, outcome.Recorder());
  statistics.fill_(-1);
  saver.BeforeChange();
  large.fill_(-1);
  outcome.done.WaitForNotification();
  ASSERT_TRUE(outcome.result.status.ok()) << outcome.result.status;
  EXPECT_EQ(outcome.result.bytes, bytes);
  EXPECT_GT(outcome.result.write_s, 0);

  const std::string path = directory_ + "/" + ShardName(0, 1);
  EXPECT_EQ(Read(path).size(), static_cast<size_t>(bytes));
  const auto shard = SafetensorsFile::Open(path);
  ASSERT_TRUE(shard.ok()) << shard.status();
  ASSERT_EQ(shard->tensors().size(), 2u);
  for (const Safetensor& tensor : shard->tensors()) {
    EXPECT_TRUE(tensor.bytes == before.at(tensor.name)) << tensor.name;
  }
}

TEST_F(ShardSaverTest, EntriesAreAlignedAndThePartTellsWhereTheyLie) {
  ShardSaver saver(platform_, {});
  const std::vector<ShardEntry> entries = {
      Whole("bytes", at::ones({5}, at::kByte)),
      Whole("flag", at::ones({}, at::kBool)),
      Whole("half", at::ones({3, 3}, at::kBFloat16)),
      Whole("scalar", at::ones({}, at::kLong)),
      Whole("odd", Floats(3)),
      {"rows", {10, 2}, 4, Floats(6).reshape({3, 2})},
      Whole("none", at::empty({0, 4})),
  };
  ASSERT_TRUE(SaveAndWait(saver, directory_, Part(7, 1), entries).status.ok());
  const std::string contents = Read(directory_ + "/" + ShardName(0, 1));
  const auto part = ParseManifest(Read(directory_ + "/" + PartName(0)));
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_EQ(part->tensors.size(), entries.size());
  EXPECT_EQ(part->files.front().bytes, static_cast<int64_t>(contents.size()));
  EXPECT_EQ(part->step, 7);
  std::map<std::string, ManifestTensor> found;
  for (const ManifestTensor& tensor : part->tensors) found[tensor.name] = tensor;
  for (const ShardEntry& entry : entries) {
    const ManifestTensor& tensor = found[entry.name];
    const TensorSlice& slice = tensor.slices.at(0);
    EXPECT_EQ(tensor.shape, entry.shape);
    EXPECT_EQ(slice.first_row, entry.first_row);
    EXPECT_EQ(slice.rows, entry.rows.dim() == 0 ? 1 : entry.rows.size(0));
    EXPECT_EQ(slice.offset % static_cast<int64_t>(entry.rows.itemsize()), 0) << entry.name;
    const std::string bytes = BytesOf(entry.rows);
    EXPECT_EQ(contents.substr(static_cast<size_t>(slice.offset), bytes.size()), bytes);
    EXPECT_EQ(slice.checksum, ChecksumOf(bytes)) << entry.name;
  }
  EXPECT_EQ(found["half"].dtype, "BF16");
  EXPECT_EQ(found["rows"].slices[0].offset % 8, 0);
  EXPECT_EQ(found["scalar"].slices[0].offset % 8, 0);
}

TEST_F(ShardSaverTest, NanIsNotSavedUnlessItIsWanted) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  ShardSaver strict(platform_, {});
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor tensor = at::ones({1000}, type);
    tensor[7].fill_(-infinity);  // Like a mask.
    tensor[8].fill_(infinity);
    EXPECT_TRUE(SaveAndWait(strict, directory_, Part(7, 1), {Whole("t", tensor)}).status.ok());
    tensor[999].fill_(-nan);
    const std::string other = absl::StrCat(job_, "/", c10::toString(type));
    const absl::Status status =
        SaveAndWait(strict, other, Part(7, 1), {Whole("ok", Floats(3)), Whole("model/bad", tensor)})
            .status;
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(status.message(), "model/bad has a value that is not a number"))
        << status;
    EXPECT_FALSE(Exists(other + "/" + ShardName(0, 1)));
    ShardSaver::Options options;
    options.save_nan = true;
    ShardSaver lenient(platform_, options);
    EXPECT_TRUE(SaveAndWait(lenient, other, Part(7, 1), {Whole("bad", tensor)}).status.ok());
    ASSERT_EQ(::unlink((directory_ + "/" + ShardName(0, 1)).c_str()), 0);
  }
}

TEST_F(ShardSaverTest, TwoSavesAreInFlightAndAThirdHasToWait) {
  ShardSaver saver(platform_, {});
  saver.Reserve(4'000'000);
  // The writer's thread is busy in the callback of a save that no longer holds memory.
  absl::Notification telling, go_on;
  saver.Begin(absl::StrCat(job_, "/first"), Part(0, 1), {Whole("t", Floats(1))}, {},
              [&](const ShardResult&) {
                telling.Notify();
                go_on.WaitForNotification();
              });
  telling.WaitForNotification();
  at::Tensor tensor = Floats(1'500'000);
  std::vector<std::string> before;
  Outcome outcomes[3];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(saver.IsFree(), i < 2);
    if (i == 2) go_on.Notify();
    saver.WaitUntilFree();
    before.push_back(BytesOf(tensor));
    saver.Begin(absl::StrCat(job_, "/", i), Part(i, 1), {Whole("t", tensor)}, {},
                outcomes[i].Recorder());
    saver.BeforeChange();
    tensor.add_(1);
  }
  saver.Drain();
  EXPECT_TRUE(saver.IsFree());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(outcomes[i].done.HasBeenNotified());
    ASSERT_TRUE(outcomes[i].result.status.ok()) << outcomes[i].result.status;
    const auto shard = SafetensorsFile::Open(absl::StrCat(job_, "/", i, "/", ShardName(0, 1)));
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_TRUE(shard->tensors().at(0).bytes == before[static_cast<size_t>(i)]) << i;
  }
}

TEST_F(ShardSaverTest, AMemoryTooSmallGrows) {
  ShardSaver saver(platform_, {});
  saver.Reserve(1000);
  for (int64_t count : {100, 5'000'000, 100}) {
    const at::Tensor tensor = Floats(count);
    const std::string path = directory_ + "/" + ShardName(0, 1);
    ASSERT_TRUE(SaveAndWait(saver, directory_, Part(7, 1), {Whole("t", tensor)}).status.ok());
    const auto shard = SafetensorsFile::Open(path);
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_TRUE(shard->tensors().at(0).bytes == BytesOf(tensor)) << count;
    ::unlink(path.c_str());
  }
}

TEST_F(ShardSaverTest, PartsOfAllRanksBecomeTheManifest) {
  const at::Tensor tensor = Floats(10).reshape({5, 2});
  for (int rank = 0; rank < 3; ++rank) {
    ShardSaver saver(platform_, {});
    saver.SetPlace(rank, 3);
    std::vector<ShardEntry> entries;  // Rank 2 has no entries.
    if (rank == 0) entries = {{"t", {5, 2}, 0, tensor.narrow(0, 0, 2)}};
    if (rank == 1) entries = {{"t", {5, 2}, 2, tensor.narrow(0, 2, 3)}};
    ASSERT_TRUE(SaveAndWait(saver, directory_, Part(7, 3), entries).status.ok());
    if (rank < 2) {
      const absl::Status early = Commit(saver, directory_);
      EXPECT_EQ(early.code(), absl::StatusCode::kDataLoss);
      EXPECT_TRUE(absl::StrContains(early.message(), PartName(rank + 1))) << early;
      continue;
    }
    ASSERT_TRUE(Commit(saver, directory_).ok());
    EXPECT_TRUE(Commit(saver, directory_).ok()) << "again";
  }
  const auto manifest = ParseManifest(Read(directory_ + "/" + kManifestName));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->files.size(), 3u);
  ASSERT_EQ(manifest->tensors.size(), 1u);
  EXPECT_EQ(manifest->tensors[0].slices.size(), 2u);
  EXPECT_NEAR(static_cast<double>(manifest->created),
              static_cast<double>(absl::ToUnixSeconds(absl::Now())), 60);
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(Exists(directory_ + "/" + PartName(rank)));
}

// It does not wait until the next shard is on disk.
TEST_F(ShardSaverTest, ACommitDoesNotWaitForWhatIsBeingWritten) {
  ShardSaver::Options slow;
  slow.write_limit = 4e6;
  ShardSaver saver(platform_, slow);
  ASSERT_TRUE(SaveAndWait(saver, directory_, Part(7, 1), {Whole("t", Floats(10))}).status.ok());
  const at::Tensor large = Floats(5'000'000);  // Takes 5 s to write.
  absl::Notification written;
  saver.Begin(directory_ + "/next", Part(8, 1), {Whole("t", large)}, {},
              [&](const ShardResult&) { written.Notify(); });
  EXPECT_TRUE(Commit(saver, directory_).ok());
  EXPECT_FALSE(written.HasBeenNotified());
}

TEST_F(ShardSaverTest, AShardThatHasChangedIsNotCommitted) {
  ShardSaver saver(platform_, {});
  const std::vector<ShardEntry> entries = {Whole("t", Floats(1000))};
  ASSERT_TRUE(SaveAndWait(saver, directory_, Part(7, 1), entries).status.ok());
  const std::string shard = directory_ + "/" + ShardName(0, 1);
  ASSERT_EQ(::truncate(shard.c_str(), 5000), 0);
  const absl::Status shorter = Commit(saver, directory_);
  EXPECT_EQ(shorter.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(shorter.message(), shard)) << shorter;
  ::unlink(shard.c_str());
  EXPECT_EQ(Commit(saver, directory_).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(Exists(directory_ + "/" + kManifestName));
}

TEST_F(ShardSaverTest, AnEntryThatNoShardCanHoldFailsTheSave) {
  ShardSaver saver(platform_, {});
  const ShardEntry entry = Whole("t", Floats(10));
  EXPECT_EQ(SaveAndWait(saver, directory_, Part(7, 1), {entry, entry}).status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(saver.IsFree());
}

TEST_F(ShardSaverTest, AFileInTheWayOfADirectoryIsUnavailable) {
  ShardSaver saver(platform_, {});
  const ShardResult result =
      SaveAndWait(saver, "/dev/null/step", Part(7, 1), {Whole("t", Floats(10))});
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable) << result.status;
  EXPECT_TRUE(saver.IsFree());
}

TEST_F(ShardSaverTest, ADirectoryRemovedMeanwhileFailsTheSave) {
  ShardSaver::Options slow;
  slow.write_limit = 20e6;
  ShardSaver saver(platform_, slow);
  const at::Tensor tensor = Floats(3'000'000);
  Outcome outcome;
  saver.Begin(directory_, Part(7, 1), {Whole("t", tensor)}, {}, outcome.Recorder());
  const std::string shard = directory_ + "/" + ShardName(0, 1);
  while (!Exists(shard)) absl::SleepFor(absl::Milliseconds(1));
  ::unlink(shard.c_str());
  ASSERT_EQ(::rmdir(directory_.c_str()), 0);
  saver.BeforeChange();
  outcome.done.WaitForNotification();
  EXPECT_EQ(outcome.result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(saver.IsFree());
  EXPECT_TRUE(SaveAndWait(saver, directory_, Part(7, 1), {Whole("t", tensor)}).status.ok());
}

TEST_F(ShardSaverTest, AFullDiskFailsTheSaveAndTheNextIsTried) {
  SmallDisk disk;
  if (!disk.is_there()) GTEST_SKIP() << "this machine lets nobody mount";
  ShardSaver saver(platform_, {});
  const std::string directory = disk.directory() + "/step";
  const ShardResult full =
      SaveAndWait(saver, directory, Part(7, 1), {Whole("t", Floats(2'000'000))});
  EXPECT_EQ(full.status.code(), absl::StatusCode::kResourceExhausted) << full.status;
  EXPECT_FALSE(Exists(directory + "/" + ShardName(0, 1)));
  EXPECT_FALSE(Exists(directory + "/" + PartName(0)));
  EXPECT_TRUE(saver.IsFree());
  EXPECT_TRUE(SaveAndWait(saver, directory, Part(7, 1), {Whole("t", Floats(1000))}).status.ok());

  disk.MakeReadOnly();
  EXPECT_EQ(SaveAndWait(saver, disk.directory() + "/next", Part(8, 1), {}).status.code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Commit(saver, directory).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ShardSaverTest, EndingWaitsForWhatIsBeingWritten) {
  Outcome outcome;
  const at::Tensor tensor = Floats(3'000'000);
  {
    ShardSaver saver(platform_, {});
    saver.Begin(directory_, Part(7, 1), {Whole("t", tensor)}, {}, outcome.Recorder());
  }
  ASSERT_TRUE(outcome.done.HasBeenNotified());
  EXPECT_TRUE(outcome.result.status.ok()) << outcome.result.status;
}

}  // namespace
}  // namespace paceline
