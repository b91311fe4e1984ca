#include "worker/trainer/checkpoint/state_reader.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/trainer/checkpoint/shard_saver.h"
#include "worker/trainer/comm/cpu_platform.h"

namespace paceline {
namespace {

at::Tensor Numbers(at::IntArrayRef shape, at::ScalarType type) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return at::arange(count, at::kLong).remainder(100).to(type).reshape(shape);
}

// The tensors of the checkpoint.
struct State {
  at::Tensor matrix = Numbers({700, 3001}, at::kFloat);  // In three slices, one of 7 MB.
  at::Tensor half = Numbers({3, 3}, at::kBFloat16);
  at::Tensor step = at::full({}, 42, at::kLong);
  at::Tensor bytes = Numbers({5000}, at::kByte);
};

ShardEntry Rows(const std::string& name, const at::Tensor& tensor, int64_t first, int64_t rows) {
  return {name, tensor.sizes().vec(), first, tensor.narrow(0, first, rows)};
}

// A checkpoint saved by three ranks.
std::string WriteCheckpoint() {
  std::string job = testing::TempDir() + "/job.XXXXXX";
  EXPECT_NE(::mkdtemp(job.data()), nullptr);
  const std::string directory = job + "/step-000000000007.g1";
  const State state;
  const std::vector<ShardEntry> entries[] = {
      {Rows("matrix", state.matrix, 0, 100), Rows("bytes", state.bytes, 0, 5000)},
      {Rows("matrix", state.matrix, 100, 590), {"step", {}, 0, state.step}},
      {Rows("matrix", state.matrix, 690, 10), Rows("half", state.half, 0, 3)}};
  CpuPlatform platform;
  for (int rank = 0; rank < 3; ++rank) {
    ShardSaver saver(platform, {});
    saver.SetPlace(rank, 3);
    Manifest part;
    part.job_id = "j-1";
    part.generation = 1;
    part.step = 7;
    part.ranks = 3;
    part.job_spec = "{}";
    saver.Begin(directory, part, entries[rank], {},
                [](const ShardResult& result) { EXPECT_TRUE(result.status.ok()); });
    saver.BeforeChange();
    if (rank == 2) {
      saver.Drain();
      saver.Commit(directory,
                   [](const absl::Status& status, double) { EXPECT_TRUE(status.ok()) << status; });
    }
  }
  return directory;
}

// Threads, and whether other processes read, too.
class StateReaderTest : public testing::TestWithParam<std::tuple<int, Readers>> {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }  // Torch's threads confuse sanitizers.

  StateReader Open() {
    absl::StatusOr<StateReader> reader =
        StateReader::Open(directory_, std::get<int>(GetParam()), std::get<Readers>(GetParam()));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  // Drops the file from the page cache.
  void Forget(const std::string& name) {
    const int fd = ::open((directory_ + "/" + name).c_str(), O_RDONLY);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
  }

  const State state_{};
  const std::string directory_ = WriteCheckpoint();
};

TEST_P(StateReaderTest, PutsTogetherWhatRanksHaveWritten) {
  for (bool cached : {false, true}) {
    if (!cached) {
      for (int rank = 0; rank < 3; ++rank) Forget(ShardName(rank, 3));
    }
    StateReader reader = Open();
    const at::Tensor matrix = at::zeros_like(state_.matrix);
    const at::Tensor half = at::zeros_like(state_.half);
    const at::Tensor step = at::zeros_like(state_.step);
    const at::Tensor bytes = at::zeros_like(state_.bytes);
    const absl::Status status =
        reader.Read({{"matrix", matrix}, {"half", half}, {"step", step}, {"bytes", bytes}});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(at::equal(matrix, state_.matrix));
    EXPECT_TRUE(at::equal(half, state_.half));
    EXPECT_TRUE(at::equal(step, state_.step));
    EXPECT_TRUE(at::equal(bytes, state_.bytes));
    EXPECT_EQ(reader.bytes_read(), static_cast<int64_t>(matrix.nbytes() + half.nbytes() +
                                                        step.nbytes() + bytes.nbytes()));
  }
}

TEST_P(StateReaderTest, OtherFloatingTypesAreConverted) {
  StateReader reader = Open();
  const at::Tensor matrix = at::zeros({700, 3001}, at::kDouble);
  const at::Tensor half = at::zeros({3, 3}, at::kFloat);
  ASSERT_TRUE(reader.Read({{"matrix", matrix}, {"half", half}}).ok());
  EXPECT_TRUE(at::equal(matrix, state_.matrix.to(at::kDouble)));
  EXPECT_TRUE(at::equal(half, state_.half.to(at::kFloat)));
}

TEST_P(StateReaderTest, AParameterMayWantItsGradient) {
  StateReader reader = Open();
  at::Tensor half = at::zeros({3, 3}, at::kFloat);
  half.requires_grad_();
  ASSERT_TRUE(reader.Read({{"half", half}}).ok());
  EXPECT_TRUE(at::equal(half.detach(), state_.half.to(at::kFloat)));
}

TEST_P(StateReaderTest, AllThatDoesNotFitIsListedAndNothingChanges) {
  StateReader reader = Open();
  const at::Tensor step = at::zeros({}, at::kLong);
  const absl::Status status = reader.Read({{"step", step},
                                           {"other", at::zeros({1})},
                                           {"matrix", at::zeros({700, 3000})},
                                           {"bytes", at::zeros({5000})}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* text :
       {"other is missing", "[700, 3001] and needs [700, 3000]", "bytes is of"}) {
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  }
  EXPECT_EQ(step.item<int64_t>(), 0);
}

TEST_P(StateReaderTest, ADamagedByteIsNamed) {
  const StateReader sound = Open();
  const TensorSlice slice = sound.files().Find("matrix")->slices.at(1);
  const std::string path = directory_ + "/" + slice.file;
  for (bool cached : {false, true}) {
    const int64_t offset = slice.offset + (cached ? slice.bytes - 1 : 0);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get());
    file.seekp(offset);
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    if (!cached) Forget(slice.file);
    StateReader reader = Open();
    const absl::Status status = reader.Read({{"matrix", at::zeros_like(state_.matrix)}});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    for (const std::string& text : {path, std::string("matrix"), absl::StrCat(slice.offset)}) {
      EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
    }
    EXPECT_TRUE(reader.Read({{"step", at::zeros({}, at::kLong)}}).ok()) << "the rest is sound";
    std::fstream mended(path, std::ios::in | std::ios::out | std::ios::binary);
    mended.seekp(offset);
    mended.put(byte);
  }
}

TEST_P(StateReaderTest, AnIncompleteCheckpointIsNotFound) {
  ::unlink((directory_ + "/" + kManifestName).c_str());
  EXPECT_EQ(StateReader::Open(directory_, 1).status().code(), absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(All, StateReaderTest,
                         testing::Combine(testing::Values(1, 2, 5),
                                          testing::Values(Readers{0, 1}, Readers{0, 2},
                                                          Readers{2, 3})));

TEST(Readers, EachBeginsWithItsOwnPart) {
  const std::string directory = WriteCheckpoint();
  const at::Tensor matrix = at::zeros({700, 3001});
  // All slices are damaged; one thread stops at the first that it reads.
  const std::vector<TensorSlice> slices =
      StateReader::Open(directory, 1)->files().Find("matrix")->slices;
  for (const TensorSlice& slice : slices) {
    std::fstream file(directory + "/" + slice.file,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(slice.offset + slice.bytes - 1);
    file.put('x');
  }
  const auto first = [&](const Readers& readers) {
    const absl::Status status =
        StateReader::Open(directory, 1, readers)->Read({{"matrix", matrix}});
    for (size_t i = 0; i < slices.size(); ++i) {
      if (absl::StrContains(status.message(), slices[i].file)) return static_cast<int>(i);
    }
    return -1;
  };
  // Largest first: rows 100 to 690, 0 to 100, 690 to 700.
  EXPECT_EQ(first({0, 1}), 1);
  EXPECT_EQ(first({0, 2}), 1);
  EXPECT_EQ(first({1, 2}), 0);
  EXPECT_EQ(first({98, 100}), 2);
}

}  // namespace
}  // namespace paceline
