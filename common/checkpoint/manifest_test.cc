#include "common/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/checkpoint/checksum.h"

namespace paceline {
namespace {

constexpr char kShard0[] = "shard-00000-of-00002.safetensors";
constexpr char kShard1[] = "shard-00001-of-00002.safetensors";

// The part of rank 0 of 2: the first two rows of a matrix with five, and a scalar.
Manifest Part0() {
  Manifest part;
  part.paceline_version = "0.1.0";
  part.torch_version = "2.11.0";
  part.created = 1'700'000'000;
  part.job_id = "j-1";
  part.generation = 2;
  part.step = 120;
  part.ranks = 2;
  part.plan_epoch = 3;
  part.ladder = "2:2,8:8";
  part.data_epoch = 1;
  part.data_offset = 640;
  part.job_spec = R"({"name":"digits","ranks":2})";
  part.files = {{kShard0, 128}};
  part.tensors = {
      {"model/fc.weight", "F32", {5, 3}, {{kShard0, 0, 2, 64, 24, 0x1234}}},
      {"model/steps", "I64", {}, {{kShard0, 0, 1, 88, 8, std::numeric_limits<uint64_t>::max()}}}};
  return part;
}

// The part of rank 1: the other rows.
Manifest Part1() {
  Manifest part = Part0();
  part.created += 5;
  part.files = {{kShard1, 100}};
  part.tensors = {{"model/fc.weight", "F32", {5, 3}, {{kShard1, 2, 3, 64, 36, 0x5678}}}};
  return part;
}

// A manifest with this body and the right checksum.
std::string Sealed(const std::string& body) {
  return absl::StrCat("{\"checksum\": \"", ChecksumText(ChecksumOf(body)), "\",\n", body);
}

// The merged example with `before` replaced by `after`, and the right checksum.
std::string Changed(const std::string& before, const std::string& after) {
  const std::string text = FormatManifest(MergeManifests({Part0(), Part1()}).value());
  const std::string body = text.substr(text.find('\n') + 1);
  EXPECT_TRUE(absl::StrContains(body, before)) << before;
  return Sealed(absl::StrReplaceAll(body, {{before, after}}));
}

void ExpectDamage(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text << " of: " << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << text << " of: " << status;
}

TEST(ManifestTest, IsReadBackAsItWasWritten) {
  const Manifest part = Part0();
  const absl::StatusOr<Manifest> read = ParseManifest(FormatManifest(part));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatManifest(*read), FormatManifest(part));
  EXPECT_EQ(read->paceline_version, "0.1.0");
  EXPECT_EQ(read->torch_version, "2.11.0");
  EXPECT_EQ(read->created, 1'700'000'000);
  EXPECT_EQ(read->job_id, "j-1");
  EXPECT_EQ(read->generation, 2);
  EXPECT_EQ(read->step, 120);
  EXPECT_EQ(read->ranks, 2);
  EXPECT_EQ(read->plan_epoch, 3);
  EXPECT_EQ(read->ladder, "2:2,8:8");
  EXPECT_EQ(read->data_epoch, 1);
  EXPECT_EQ(read->data_offset, 640);
  EXPECT_EQ(read->job_spec, part.job_spec);
  ASSERT_EQ(read->files.size(), 1u);
  EXPECT_EQ(read->files[0].name, kShard0);
  EXPECT_EQ(read->files[0].bytes, 128);
  ASSERT_EQ(read->tensors.size(), 2u);
  const ManifestTensor& weight = read->tensors[0];
  EXPECT_EQ(weight.name, "model/fc.weight");
  EXPECT_EQ(weight.dtype, "F32");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{5, 3}));
  ASSERT_EQ(weight.slices.size(), 1u);
  EXPECT_EQ(weight.slices[0].file, kShard0);
  EXPECT_EQ(weight.slices[0].first_row, 0);
  EXPECT_EQ(weight.slices[0].rows, 2);
  EXPECT_EQ(weight.slices[0].offset, 64);
  EXPECT_EQ(weight.slices[0].bytes, 24);
  EXPECT_EQ(weight.slices[0].checksum, 0x1234u);
  EXPECT_TRUE(read->tensors[1].shape.empty());
  EXPECT_EQ(read->tensors[1].slices[0].checksum, std::numeric_limits<uint64_t>::max());
}

TEST(ManifestTest, TextIsForPeople) {
  const std::string text = FormatManifest(Part1());
  EXPECT_EQ(text.substr(text.find('\n') + 1),
            R"("format_version": 1,
"paceline_version": "0.1.0",
"torch_version": "2.11.0",
"created": 1700000005,
"job_id": "j-1",
"generation": 2,
"step": 120,
"ranks": 2,
"plan_epoch": 3,
"ladder": "2:2,8:8",
"data": {"epoch": 1, "offset": 640},
"job_spec": {"name":"digits","ranks":2},
"files": [
  {"name": "shard-00001-of-00002.safetensors", "bytes": 100}],
"tensors": {
  "model/fc.weight": {"dtype": "F32", "shape": [5, 3], "slices": [
    {"file": "shard-00001-of-00002.safetensors", "rows": [2, 3], "offset": 64, "bytes": 36, "checksum": "xxh3:0000000000005678"}]}}}
)");
}

TEST(ManifestTest, AnEmptyOneIsReadBackToo) {
  Manifest empty;
  empty.ranks = 1;
  const absl::StatusOr<Manifest> read = ParseManifest(FormatManifest(empty));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job_spec, "{}");
  EXPECT_EQ(FormatManifest(*read), FormatManifest(empty));
}

TEST(ManifestTest, OrderInTheTextDoesNotMatter) {
  Manifest manifest = MergeManifests({Part0(), Part1()}).value();
  const std::string sorted = FormatManifest(manifest);
  std::swap(manifest.files[0], manifest.files[1]);
  std::swap(manifest.tensors[0], manifest.tensors[1]);
  std::swap(manifest.tensors[1].slices[0], manifest.tensors[1].slices[1]);
  EXPECT_NE(FormatManifest(manifest), sorted);
  EXPECT_EQ(FormatManifest(ParseManifest(FormatManifest(manifest)).value()), sorted);
}

TEST(ManifestTest, EveryFlippedBitIsNoticed) {
  const std::string text = FormatManifest(Part0());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      ASSERT_EQ(ParseManifest(damaged).status().code(), absl::StatusCode::kDataLoss)
          << i << " " << bit;
    }
  }
}

TEST(ManifestTest, EveryTruncationIsNoticed) {
  const std::string text = FormatManifest(Part0());
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_EQ(ParseManifest(text.substr(0, size)).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(ManifestTest, NewerVersionsAreRefusedWhateverTheyHold) {
  const absl::Status status =
      ParseManifest(Sealed("\"format_version\": 3, \"step\": {}}")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "format_version 3")) << status;
  EXPECT_TRUE(ParseManifest(Changed("\"created\"", "\"more\": [{}, [1, {}]], \"created\"")).ok());
}

TEST(ManifestTest, ValuesOfTheWrongKindAreNamed) {
  const auto expect = [](const std::string& before, const std::string& after,
                         const std::string& text) {
    ExpectDamage(ParseManifest(Changed(before, after)).status(), text);
  };
  expect("\"step\": 120", "\"step\": -1", "step: is no whole number");
  expect("\"step\": 120", "\"step\": 1.5", "step: is no whole number");
  expect("\"step\": 120", "\"step\": 9223372036854775808", "step: is no whole number");
  expect("\"step\": 120", "\"step\": [1]", "step: is an array");
  expect("\"step\": 120,", "", "the manifest: lacks");
  expect("\"step\": 120", "\"step\": 120, \"step\": 120", "step: comes twice");
  expect("\"ranks\": 2,\n", "\"ranks\": 0,\n", "ranks: impossible");
  expect("\"ranks\": 2,\n", "\"ranks\": 2147483648,\n", "ranks: impossible");
  expect("\"format_version\": 1", "\"format_version\": 0", "format_version: impossible");
  expect("\"format_version\": 1,", "", "format_version: not in the second line");
  expect("\"j-1\"", "7", "job_id: is no text");
  expect("\"j-1\"", "\"\xff\"", "no JSON in UTF-8");
  expect("{\"epoch\": 1, \"offset\": 640}", "[1, 640]", "data: is an array");
  expect(", \"offset\": 640", "", "data: lacks");
  expect("{\"name\":\"digits\",\"ranks\":2}", "7", "job_spec: is neither");
  expect(", \"bytes\": 128}", "}", "files[0]: lacks");
  expect("\"dtype\": \"F32\"", "\"dtype\": {}", "dtype: is an object");
  expect("[5, 3]", "{}", "shape: is an object");
  expect("[2, 3]", "[2]", "slices[1]: rows are not two");
  expect("[2, 3]", "[2, 3, 4]", "slices[1]: rows are not two");
  expect("\"file\": ", "\"other\": ", "slices[0]: lacks");
  expect("\"xxh3:0000000000005678\"", "\"5678\"", "slices[1]: its checksum");
}

TEST(ManifestTest, ContradictionsAreNamed) {
  const auto expect = [](const std::string& before, const std::string& after,
                         const std::string& text) {
    ExpectDamage(ParseManifest(Changed(before, after)).status(), text);
  };
  expect("\"dtype\": \"F32\"", "\"dtype\": \"F31\"", "unknown dtype \"F31\"");
  expect("[5, 3]", "[4, 3]", "3 rows of a tensor that has 4");
  expect("[2, 3]", "[9223372036854775807, 9223372036854775807]", "of a tensor that has 5");
  expect("[5, 3]", "[5, 4]", "are not those of its rows");
  expect("[5, 3]", "[4294967296, 4294967296]", "too large");
  expect("[5, 3]", "[0, 4294967296, 4294967296]", "too large");
  expect("[2, 3], \"offset\": 64", "[2, 3], \"offset\": 65", "not within");
  expect("[2, 3], \"offset\": 64", "[2, 3], \"offset\": 9223372036854775807", "not within");
  expect("\"bytes\": 100}", "\"bytes\": 0}", "not within");
  expect("\"bytes\": 36", "\"bytes\": 9223372036854775807", "are not those of its rows");
  expect(absl::StrCat("\"name\": \"", kShard1, "\""), "\"name\": \"other\"", "not listed");
  expect(kShard1, kShard0, "listed twice");
  expect("\"model/steps\"", "\"a\\nb\"", "not printable");
  expect("\"model/steps\"", "\"\"", "not printable");
  expect("[0, 2]", "[0, 0]", "0 rows");
  for (const char* name :
       {"", ".", "..", "a/b", "/etc/passwd", "../x", "a\\u0000", "manifest.json"}) {
    expect(absl::StrCat("\"", kShard1, "\""), absl::StrCat("\"", name, "\""), "files: a name");
  }
}

// A matrix of 5 x 3 in columns: the first in one file, the others in another.
Manifest Columns() {
  Manifest manifest = MergeManifests({Part0(), Part1()}).value();
  TensorSlice left{kShard0, 0, 5, 64, 20, 1, {{0, 0}, {5, 1}}};
  TensorSlice right{kShard1, 0, 5, 60, 40, 2, {{0, 1}, {5, 2}}};
  manifest.tensors[0].slices = {left, right};
  return manifest;
}

TEST(ManifestTest, SlicesThatAreNoRowsTakeVersion2) {
  EXPECT_EQ(ParseManifest(FormatManifest(Part0()))->version, 1);
  const std::string text = FormatManifest(Columns());
  EXPECT_TRUE(absl::StrContains(text, "\"format_version\": 2,\n"));
  EXPECT_TRUE(absl::StrContains(
      text, absl::StrCat("{\"file\": \"", kShard1,
                         "\", \"offsets\": [0, 1], \"sizes\": [5, 2], \"offset\": 60, \"bytes\": "
                         "40, \"checksum\": \"xxh3:0000000000000002\"}")))
      << text;
  const absl::StatusOr<Manifest> read = ParseManifest(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(CheckComplete(*read).ok());
  EXPECT_EQ(FormatManifest(*read), text);
  const TensorSlice& slice = read->tensors[0].slices[1];
  EXPECT_FALSE(slice.is_rows());
  EXPECT_EQ(slice.first_row, 0);
  EXPECT_EQ(slice.rows, 5);
  EXPECT_EQ(BoxOf(read->tensors[0], slice).offsets, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(BoxOf(read->tensors[1], read->tensors[1].slices[0]).sizes, std::vector<int64_t>());
}

TEST(ManifestTest, PlacesOfSlicesAreChecked) {
  const std::string text = FormatManifest(Columns());
  const auto expect = [&](const std::string& before, const std::string& after,
                          const std::string& what) {
    const std::string body = text.substr(text.find('\n') + 1);
    ASSERT_TRUE(absl::StrContains(body, before)) << before;
    ExpectDamage(ParseManifest(Sealed(absl::StrReplaceAll(body, {{before, after}}))).status(),
                 what);
  };
  expect("\"offsets\": [0, 1], ", "", "slices[1]: it has not as many offsets as sizes");
  expect("\"sizes\": [5, 2]", "\"sizes\": [5]", "it has not as many offsets as sizes");
  expect("\"offsets\": [0, 1], \"sizes\": [5, 2], ", "", "slices[1]: rows are not two");
  expect("\"offsets\": [0, 1], \"sizes\": [5, 2]", "\"offsets\": [1], \"sizes\": [2]",
         "not those of elements of a tensor of shape [5, 3]");
  expect("\"sizes\": [5, 2]", "\"sizes\": [5, 3]", "offsets [0, 1] and sizes [5, 3] are not");
  expect("\"sizes\": [5, 2]", "\"sizes\": [5, 0]", "offsets [0, 1] and sizes [5, 0] are not");
  expect("\"sizes\": [5, 2]", "\"sizes\": [5, 9223372036854775807]", "are not those of elements");
  expect("\"offsets\": [0, 1]", "\"rows\": [1, 4], \"offsets\": [0, 1]",
         "its rows are not those of its offsets and sizes");
  expect("\"sizes\": [5, 2]", "\"sizes\": [5, 1]", "40 bytes are not those");
  expect("\"format_version\": 2", "\"format_version\": 1", "takes format_version 2 or later");
}

TEST(ManifestTest, BoxesMustCoverEachTensorOnce) {
  const auto expect = [](const std::string& text,
                         const std::function<void(ManifestTensor&)>& change) {
    Manifest manifest = Columns();
    change(manifest.tensors[0]);
    ExpectDamage(CheckComplete(manifest), text);
  };
  EXPECT_TRUE(CheckComplete(Columns()).ok());
  expect("\"model/fc.weight\": none of its slices has element [0, 1]",
         [](ManifestTensor& tensor) { tensor.slices.pop_back(); });
  expect("\"model/fc.weight\": 2 of its slices have element [0, 1]",
         [](ManifestTensor& tensor) { tensor.slices.push_back(tensor.slices[1]); });
  expect("\"model/fc.weight\": none of its slices has element [0, 1]", [](ManifestTensor& tensor) {
    tensor.slices[1].box = {{1, 1}, {4, 2}};
  });
}

TEST(ManifestTest, ATensorHasAtMost64Dimensions) {
  Manifest manifest = Columns();
  ManifestTensor& tensor = manifest.tensors[0];
  for (TensorSlice& slice : tensor.slices) {
    slice.box.offsets.resize(64, 0);
    slice.box.sizes.resize(64, 1);
  }
  tensor.shape.resize(64, 1);
  EXPECT_TRUE(CheckComplete(ParseManifest(FormatManifest(manifest)).value()).ok());
  tensor.slices[1].box.sizes.push_back(1);
  ExpectDamage(ParseManifest(FormatManifest(manifest)).status(), "slices[1].sizes[64]: is beyond");
  tensor.slices.clear();
  tensor.shape.push_back(1);
  ExpectDamage(ParseManifest(FormatManifest(manifest)).status(), ".shape[64]: is beyond the 64");
}

TEST(ManifestTest, OfBoxesATensorHasAtMost65536) {
  Manifest manifest = Columns();
  ManifestTensor& tensor = manifest.tensors[0];
  tensor.shape = {5, 1 << 16};
  tensor.slices.clear();
  for (int64_t column = 0; column < tensor.shape[1]; ++column) {
    tensor.slices.push_back({kShard0, 0, 5, 0, 20, 0, {{0, column}, {5, 1}}});
  }
  EXPECT_TRUE(CheckComplete(manifest).ok());
  tensor.slices.push_back(tensor.slices.back());
  ExpectDamage(CheckComplete(manifest), "\"model/fc.weight\": 65537 slices that are not all rows");
}

TEST(ManifestTest, RowsAndBoxesTogetherCoverATensor) {
  Manifest manifest = Columns();
  manifest.tensors[0].slices = {{kShard0, 0, 2, 64, 24, 1},
                                {kShard1, 2, 3, 60, 36, 2, {{2, 0}, {3, 3}}}};
  EXPECT_TRUE(CheckComplete(ParseManifest(FormatManifest(manifest)).value()).ok());
  manifest.tensors[0].slices[0].rows = 3;
  ExpectDamage(CheckComplete(manifest), "2 of its slices have element [2, 0]");
}

TEST(ManifestTest, ShardsAreToldWhereThereAreSeveral) {
  Manifest part = Part0();
  EXPECT_FALSE(absl::StrContains(FormatManifest(part), "shards"));
  EXPECT_EQ(ParseManifest(FormatManifest(part))->shards, 1);
  part.shards = 2;
  EXPECT_TRUE(absl::StrContains(FormatManifest(part), "\"ranks\": 2,\n\"shards\": 2,\n"));
  EXPECT_EQ(ParseManifest(FormatManifest(part))->shards, 2);
  ExpectDamage(MergeManifests({part, Part1()}).status(), "in shards: 2 and 1");
  part.shards = 0;
  ExpectDamage(ParseManifest(FormatManifest(part)).status(), "shards: impossible");
}

TEST(ManifestTest, ATensorHasOneSliceInAFile) {
  Manifest part = Part0();
  part.tensors[0].slices.push_back({kShard0, 2, 3, 88, 36, 0});
  ExpectDamage(ParseManifest(FormatManifest(part)).status(), "two slices in shard-00000");
}

TEST(ManifestTest, DeepNestingIsRefused) {
  const std::string deep(4'000'000, '[');
  ExpectDamage(
      ParseManifest(Sealed("\"format_version\": 1, \"job_spec\": {\"a\": " + deep)).status(),
      "deeper");
}

TEST(ManifestTest, MergedPartsAreOneManifest) {
  const absl::StatusOr<Manifest> merged = MergeManifests({Part1(), Part0()});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(CheckComplete(*merged).ok());
  EXPECT_EQ(merged->created, Part1().created);
  ASSERT_EQ(merged->files.size(), 2u);
  EXPECT_EQ(merged->files[0].name, kShard0);
  ASSERT_EQ(merged->tensors.size(), 2u);
  ASSERT_EQ(merged->tensors[0].slices.size(), 2u);
  EXPECT_EQ(merged->tensors[0].slices[0].file, kShard0);
  EXPECT_EQ(merged->tensors[0].slices[1].file, kShard1);
  EXPECT_EQ(FormatManifest(*merged), FormatManifest(*MergeManifests({Part0(), Part1()})));
  EXPECT_EQ(FormatManifest(*ParseManifest(FormatManifest(*merged))), FormatManifest(*merged));
}

TEST(ManifestTest, PartsOfDifferentCheckpointsAreRefused) {
  const auto expect = [](const std::string& text, const std::function<void(Manifest&)>& change) {
    Manifest part = Part1();
    change(part);
    ExpectDamage(MergeManifests({Part0(), part}).status(), text);
  };
  expect("in job_id: j-1 and j-2", [](Manifest& part) { part.job_id = "j-2"; });
  expect("in generation: 2 and 1", [](Manifest& part) { part.generation = 1; });
  expect("in step", [](Manifest& part) { part.step = 119; });
  expect("in ranks", [](Manifest& part) { part.ranks = 3; });
  expect("in plan_epoch", [](Manifest& part) { part.plan_epoch = 4; });
  expect("in ladder", [](Manifest& part) { part.ladder = ""; });
  expect("in data.epoch", [](Manifest& part) { part.data_epoch = 0; });
  expect("in data.offset", [](Manifest& part) { part.data_offset = 641; });
  expect("in job_spec", [](Manifest& part) { part.job_spec = "{}"; });
  expect("F32 [5, 3] in one part and F16 [5, 3] in another",
         [](Manifest& part) { part.tensors[0].dtype = "F16"; });
  expect("[5, 4] in another", [](Manifest& part) { part.tensors[0].shape = {5, 4}; });
  expect("two parts have the file", [](Manifest& part) { part.files[0].name = kShard0; });
}

TEST(ManifestTest, PartsMustCoverEachTensorOnce) {
  const auto expect = [](const std::string& text, const std::function<void(Manifest&)>& change) {
    Manifest part = Part1();
    change(part);
    ExpectDamage(MergeManifests({Part0(), part}).status(), text);
  };
  expect("leaves a gap", [](Manifest& part) { part.tensors[0].slices[0].first_row = 3; });
  expect("repeats rows", [](Manifest& part) { part.tensors[0].slices[0].first_row = 1; });
  expect("1 slices with 2 rows, of 5", [](Manifest& part) { part.tensors.clear(); });
  expect("2 slices with 4 rows, of 5", [](Manifest& part) { part.tensors[0].slices[0].rows = 2; });
  expect("repeats rows", [](Manifest& part) {
    part.tensors.push_back({"model/steps", "I64", {}, {{kShard1, 0, 1, 64, 8, 0}}});
  });
  ExpectDamage(MergeManifests({Part0()}).status(), "1 parts, of 2 ranks");
  ExpectDamage(MergeManifests({}).status(), "0 parts");
}

TEST(ManifestTest, EmptyTensorsHaveAtMostOneEntry) {
  const auto merged = [](int slices) {
    Manifest part = Part0();
    part.ranks = 1;
    part.tensors = {{"model/none", "F32", {0, 3}, {}}};
    for (int i = 0; i < slices; ++i) part.tensors[0].slices.push_back({kShard0, 0, 0, 64, 0, 0});
    return MergeManifests({part});
  };
  EXPECT_TRUE(merged(0).ok());
  ASSERT_TRUE(merged(1).ok());
  EXPECT_TRUE(ParseManifest(FormatManifest(*merged(1))).ok());
  ExpectDamage(merged(2).status(), "2 slices with 0 rows");
}

TEST(ManifestTest, BytesOfTensorsAreThoseOfTheirShape) {
  EXPECT_EQ(TensorBytes({"a", "F32", {5, 3}, {}}), 60);
  EXPECT_EQ(RowBytes({"a", "F32", {5, 3}, {}}), 12);
  EXPECT_EQ(TensorBytes({"a", "I64", {}, {}}), 8);
  EXPECT_EQ(RowBytes({"a", "I64", {}, {}}), 8);
  EXPECT_EQ(RowBytes({"a", "BF16", {7}, {}}), 2);
  EXPECT_EQ(TensorBytes({"a", "BF16", {0, 3}, {}}), 0);
  EXPECT_EQ(TensorBytes({"a", "U8", {int64_t{1} << 32, int64_t{1} << 31}, {}}), -1);
}

TEST(ManifestTest, NamesThatAreNotUtf8DoNotBreakTheText) {
  Manifest part = Part0();
  part.ladder = "\xff";
  EXPECT_TRUE(ParseManifest(FormatManifest(part)).ok());
  part.job_spec = "not JSON";
  EXPECT_EQ(ParseManifest(FormatManifest(part))->job_spec, "{}");
}

}  // namespace
}  // namespace paceline
