// Slices of any kind: saved by ranks as boxes, read as other boxes.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/manifest.h"
#include "common/core/slice.h"
#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/checkpoint/testing/saved_parts.h"

namespace paceline {
namespace {

using Shape = std::vector<int64_t>;

at::Tensor Numbers(const Shape& shape, at::ScalarType type = at::kFloat) {
  return at::arange(ElementsOf(shape), at::kLong).remainder(251).to(type).reshape(shape);
}

at::Tensor PartOf(at::Tensor tensor, const Box& box) {
  for (size_t i = 0; i < box.sizes.size(); ++i) {
    tensor = tensor.narrow(static_cast<int64_t>(i), box.offsets[i], box.sizes[i]);
  }
  return tensor.contiguous();
}

ShardEntry EntryOf(const std::string& name, const at::Tensor& whole, const Box& box) {
  ShardEntry entry;
  entry.name = name;
  entry.shape = whole.sizes().vec();
  entry.first_row = box.offsets.empty() ? 0 : box.offsets[0];
  entry.rows = PartOf(whole, box);
  if (!IsRowRange(box, entry.shape)) entry.offsets = box.offsets;
  return entry;
}

Slice SliceOf(const at::Tensor& whole, const Box& box) {
  return {whole.sizes().vec(), box.offsets, box.sizes};
}

// Cuts a tensor in at most `most` boxes.
std::vector<Box> RandomCuts(const Shape& shape, size_t most, std::mt19937& random) {
  std::vector<Box> boxes = {WholeBox(shape)};
  for (size_t tries = random() % (2 * most); tries > 0 && boxes.size() < most; --tries) {
    const size_t chosen = random() % boxes.size();
    const size_t dimension = random() % shape.size();
    if (boxes[chosen].sizes[dimension] < 2) continue;
    Box second = boxes[chosen];
    const auto first_size =
        1 + static_cast<int64_t>(random() % static_cast<uint64_t>(second.sizes[dimension] - 1));
    boxes[chosen].sizes[dimension] = first_size;
    second.offsets[dimension] += first_size;
    second.sizes[dimension] -= first_size;
    boxes.push_back(second);
  }
  return boxes;
}

std::string ContentsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Manifest ManifestOf(const std::string& directory) {
  absl::StatusOr<Manifest> manifest = ReadManifest(absl::StrCat(directory, "/", kManifestName));
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  return *std::move(manifest);
}

// Drops the shards from the page cache.
void Forget(const std::string& directory, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = absl::StrCat(directory, "/", ShardName(rank, ranks));
    const int fd = ::open(path.c_str(), O_RDONLY);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(fd);
  }
}

class SlicesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }  // Torch's threads confuse sanitizers.

  StateReader Open() {
    absl::StatusOr<StateReader> reader = StateReader::Open(directory_, /*threads=*/2);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  // Reads the box of the tensor, and expects its numbers.
  void ExpectRead(StateReader& reader, const std::string& name, const at::Tensor& whole,
                  const Box& box, at::ScalarType type) {
    const at::Tensor read = at::full(box.sizes, 77, type);
    const absl::Status status = reader.Read({{name, read, SliceOf(whole, box)}});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(at::equal(read, PartOf(whole, box).to(type))) << name;
  }

  const std::string directory_ = NewCheckpointDirectory();
};

TEST_F(SlicesTest, AnySlicingIsReadAsAnyOther) {
  constexpr size_t kRanks = 6;
  for (unsigned round = 0; round < 10; ++round) {
    std::mt19937 random(round);
    const std::string directory = NewCheckpointDirectory();
    std::vector<std::vector<ShardEntry>> ranks(kRanks);
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 12; ++i) {
      Shape shape(1 + random() % 4);
      for (int64_t& extent : shape) extent = 1 + static_cast<int64_t>(random() % 9);
      const at::Tensor tensor = Numbers(shape, i % 3 == 0 ? at::kBFloat16 : at::kFloat);
      const std::vector<Box> boxes = RandomCuts(shape, kRanks, random);
      for (size_t rank = 0; rank < boxes.size(); ++rank) {
        ranks[rank].push_back(EntryOf(absl::StrCat("t", i), tensor, boxes[rank]));
      }
      tensors.push_back(tensor);
    }
    const absl::Status saved = SaveParts(directory, ranks);
    ASSERT_TRUE(saved.ok()) << saved;
    absl::StatusOr<StateReader> reader = StateReader::Open(directory, 2);
    ASSERT_TRUE(reader.ok()) << reader.status();
    int64_t bytes = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& tensor = tensors[i];
      for (const Box& box : RandomCuts(tensor.sizes().vec(), 5, random)) {
        // Some as they are, others converted.
        const at::ScalarType type = random() % 2 == 0 ? tensor.scalar_type() : at::kDouble;
        ExpectRead(*reader, absl::StrCat("t", i), tensor, box, type);
      }
      bytes += static_cast<int64_t>(tensor.nbytes());
    }
    EXPECT_EQ(reader->bytes_read(), bytes) << "each byte once";
    const auto damages = VerifyCheckpoint(directory, [](int64_t, int64_t) {});
    ASSERT_TRUE(damages.ok()) << damages.status();
    EXPECT_TRUE(damages->empty()) << damages->front();
  }
}

// Runs of 6 KB, and of 80 KB: pieces, and reads of the file in several ways.
TEST_F(SlicesTest, LongTensorsAreReadColdAndWarm) {
  const at::Tensor narrow = Numbers({700, 3001});
  const at::Tensor wide = Numbers({40, 40001});
  std::vector<std::vector<ShardEntry>> ranks(2);
  for (const auto& [name, whole] : {std::pair("narrow", narrow), std::pair("wide", wide)}) {
    const int64_t half = whole.size(1) / 2;
    ranks[0].push_back(EntryOf(name, whole, {{0, 0}, {whole.size(0), half}}));
    ranks[1].push_back(EntryOf(name, whole, {{0, half}, {whole.size(0), whole.size(1) - half}}));
  }
  ASSERT_TRUE(SaveParts(directory_, ranks).ok());
  for (bool warm : {false, true}) {
    for (const auto& [name, whole] : {std::pair("narrow", narrow), std::pair("wide", wide)}) {
      for (const auto type : {at::kFloat, at::kDouble}) {
        if (!warm) Forget(directory_, 2);
        StateReader reader = Open();
        ExpectRead(reader, name, whole, WholeBox(whole.sizes().vec()), type);
        EXPECT_EQ(reader.bytes_unverified(), 0);
        ExpectRead(reader, name, whole, {{7, 0}, {20, whole.size(1)}}, type);
        ExpectRead(reader, name, whole, {{3, 1000}, {30, 1400}}, type);
        ExpectRead(reader, name, whole, {{39, 0}, {1, 1}}, type);
        EXPECT_GT(reader.bytes_unverified(), 0);
      }
    }
  }
}

TEST_F(SlicesTest, OnlyWhatIsNoRowsTakesANewerVersion) {
  const at::Tensor whole = Numbers({6, 4});
  const std::string rows = NewCheckpointDirectory();
  ASSERT_TRUE(SaveParts(rows, {{EntryOf("t", whole, {{0, 0}, {5, 4}})},
                               {EntryOf("t", whole, {{5, 0}, {1, 4}})}})
                  .ok());
  EXPECT_EQ(ManifestOf(rows).version, 1);
  ASSERT_TRUE(SaveParts(directory_, {{EntryOf("t", whole, {{0, 0}, {6, 1}})},
                                     {EntryOf("t", whole, {{0, 1}, {6, 3}})}})
                  .ok());
  EXPECT_EQ(ManifestOf(directory_).version, 2);
}

TEST_F(SlicesTest, ShardsSayWhereTheirEntriesAreForTorch) {
  const at::Tensor whole = Numbers({6, 4});
  const at::Tensor scalar = Numbers({});
  ASSERT_TRUE(SaveParts(directory_,
                        {{EntryOf("rows", whole, WholeBox({6, 4})),
                          EntryOf("box", whole, {{0, 0}, {6, 1}}), EntryOf("scalar", scalar, {})},
                         {EntryOf("box", whole, {{0, 1}, {6, 3}})}})
                  .ok());
  const auto metadata = [](const std::string& entries) {
    return absl::StrCat(R"({"__metadata__":{"format":"pt","DCP_SHARDING_INFO":"{)", entries,
                        R"(}","DCP_VERSION":"1.0"},)");
  };
  const auto entry = [](const std::string& name, const std::string& offsets) {
    return absl::StrCat("\\\"", name, "\\\":{\\\"saved_offsets\\\":[", offsets, "]}");
  };
  const std::string first = ContentsOf(absl::StrCat(directory_, "/", ShardName(0, 2))).substr(8);
  EXPECT_TRUE(
      absl::StartsWith(first, metadata(absl::StrCat(entry("rows", "0,0"), ",", entry("box", "0,0"),
                                                    ",", entry("scalar", "")))))
      << first.substr(0, 300);
  const std::string second = ContentsOf(absl::StrCat(directory_, "/", ShardName(1, 2))).substr(8);
  EXPECT_TRUE(absl::StartsWith(second, metadata(entry("box", "0,1")))) << second.substr(0, 300);
}

TEST_F(SlicesTest, SlicesThatDoNotCoverTheirTensorAreNotCommitted) {
  const at::Tensor whole = Numbers({6, 4});
  const auto expect = [&](const Box& second, const std::string& text) {
    const absl::Status status = SaveParts(
        NewCheckpointDirectory(),
        {{EntryOf("model/t", whole, {{0, 0}, {6, 1}})}, {EntryOf("model/t", whole, second)}});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  };
  expect({{0, 2}, {6, 2}}, "\"model/t\": none of its slices has element [0, 1]");
  expect({{0, 0}, {6, 4}}, "\"model/t\": 2 of its slices have element [0, 0]");
  expect({{0, 1}, {5, 3}}, "\"model/t\": none of its slices has element [5, 1]");
}

TEST_F(SlicesTest, AManifestWhoseSlicesDoNotCoverIsRefused) {
  const at::Tensor whole = Numbers({6, 4});
  ASSERT_TRUE(SaveParts(directory_, {{EntryOf("model/t", whole, {{0, 0}, {6, 1}})},
                                     {EntryOf("model/t", whole, {{0, 1}, {6, 3}})}})
                  .ok());
  const Manifest sound = ManifestOf(directory_);
  const auto expect = [&](const std::function<void(ManifestTensor&)>& change,
                          const std::string& text) {
    Manifest damaged = sound;
    change(damaged.tensors.at(0));
    std::ofstream(absl::StrCat(directory_, "/", kManifestName)) << FormatManifest(damaged);
    const absl::Status status = StateReader::Open(directory_, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  };
  expect([](ManifestTensor& tensor) { tensor.slices.pop_back(); },
         "\"model/t\": none of its slices has element [0, 1]");
  expect([](ManifestTensor& tensor) { tensor.slices[1].box.offsets[1] = 0; },
         "\"model/t\": 2 of its slices have element [0, 0]");
  expect([](ManifestTensor& tensor) { tensor.dtype = "I32"; }, "contradicts manifest.json");
}

TEST_F(SlicesTest, DamageIsFoundWhereASliceIsReadWhole) {
  const at::Tensor whole = Numbers({6, 4});
  ASSERT_TRUE(SaveParts(directory_, {{EntryOf("t", whole, {{0, 0}, {6, 1}})},
                                     {EntryOf("t", whole, {{0, 1}, {6, 3}})}})
                  .ok());
  const TensorSlice slice = ManifestOf(directory_).tensors.at(0).slices.at(1);
  std::fstream file(absl::StrCat(directory_, "/", slice.file),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(slice.offset + slice.bytes - 1);
  file.put(1);
  file.close();
  StateReader reader = Open();
  const at::Tensor all = at::full({6, 4}, 0.0, at::kFloat);
  const absl::Status status = reader.Read({{"t", all}});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(status.message(), "\"t\", [6, 3] elements from [0, 1] on"))
      << status;
  ExpectRead(reader, "t", whole, {{0, 0}, {5, 4}}, at::kFloat);
}

TEST_F(SlicesTest, ATargetThatIsNoSliceOfTheTensorIsNamed) {
  const at::Tensor whole = Numbers({6, 4});
  ASSERT_TRUE(SaveParts(directory_, {{EntryOf("t", whole, WholeBox({6, 4}))}}).ok());
  StateReader reader = Open();
  const auto expect = [&](const Shape& sizes, const Slice& slice, const std::string& text) {
    const absl::Status status = reader.Read({{"t", at::full(sizes, 0.0, at::kFloat), slice}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  };
  expect({3, 4}, {{8, 4}, {0, 0}, {3, 4}}, "t has shape [6, 4] and needs [8, 4]");
  expect({3, 4}, {{6, 4}, {4, 0}, {3, 4}}, "t needs a slice of [3, 4] elements from [4, 0] on");
  expect({2, 4}, {{6, 4}, {0, 0}, {3, 4}}, "for a tensor of shape [2, 4]");
  const absl::Status strided = reader.Read({{"t", at::full({4, 6}, 0.0, at::kFloat).t()}});
  EXPECT_EQ(strided.code(), absl::StatusCode::kInvalidArgument) << strided;
  EXPECT_TRUE(absl::StrContains(strided.message(), "t needs a contiguous tensor")) << strided;
  // One without elements fits, and needs nothing.
  EXPECT_TRUE(
      reader.Read({{"t", at::full({0, 4}, 0.0, at::kFloat), Slice{{6, 4}, {6, 0}, {0, 4}}}}).ok());
  EXPECT_EQ(reader.bytes_read(), 0);
}

}  // namespace
}  // namespace paceline
