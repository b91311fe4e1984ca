#include "common/export/export.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/export/testing/checkpoint_writer.h"
#include "common/safetensors/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kLlama[] = R"({"name": "small", "ranks": 3, "model": {"llama": {
    "preset": "LLAMA_PRESET_DEBUG", "dim": "64", "layers": "1", "heads": "4", "kv_heads": "2",
    "ffn_dim": "96", "vocab_size": "100", "rope_theta": 10000, "norm_epsilon": 0.001,
    "tie_embeddings": true}}, "data": {"train": "/t", "sequence_length": "32"}, "later": 1})";

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class ExportTest : public ::testing::Test {
 protected:
  ExportTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ExportTest() override { fs::remove_all(root_); }

  // Two matrices of 7 x 2 and 2 x 2, a counter, and a tensor outside the model.
  CheckpointFiles Checkpoint(const std::string& spec) {
    Manifest manifest;
    manifest.job_id = "job-0123456789ab";
    manifest.generation = 1;
    manifest.step = 120;
    manifest.ranks = 3;
    manifest.paceline_version = "1";
    manifest.torch_version = "2";
    manifest.job_spec = spec;
    std::vector<float> rows;
    for (int i = 0; i < 14; ++i) rows.push_back(static_cast<float>(i) + 1.0F / 3);
    WriteCheckpoint(
        stored_, manifest,
        {FloatsToStore("model/a.weight", {7, 2}, rows),
         FloatsToStore("model/b.weight", {2, 2}, {1, -2, 3, 4}),
         {"model/bn.num_batches_tracked", "I64", {}, std::string("\7\0\0\0\0\0\0\0", 8)},
         FloatsToStore("optimizer/exp_avg/a.weight", {7, 2}, rows),
         FloatsToStore("rank1/model/bn.mean", {1}, {5})});
    absl::StatusOr<CheckpointFiles> files = CheckpointFiles::Open(stored_);
    EXPECT_TRUE(files.ok()) << files.status();
    return *std::move(files);
  }

  std::vector<std::string> Names(const std::string& directory) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  const std::string root_ =
      fs::path(::testing::TempDir() + "/" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())
          .lexically_normal();
  const std::string stored_ = root_ + "/step-000000000120.g1";
  const std::string out_ = root_ + "/out";
};

std::map<std::string, Safetensor> ByName(const SafetensorsFile& file) {
  std::map<std::string, Safetensor> tensors;
  for (const Safetensor& tensor : file.tensors()) tensors[tensor.name] = tensor;
  return tensors;
}

TEST_F(ExportTest, FileHasTheModelAndNothingElse) {
  const CheckpointFiles checkpoint = Checkpoint("{}");
  std::vector<int64_t> progress;
  ExportOptions options;
  options.on_progress = [&](int64_t done, int64_t all) {
    EXPECT_EQ(all, 56 + 16 + 8);
    progress.push_back(done);
  };
  const auto result = ExportFile(checkpoint, out_, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tensors, 3);
  EXPECT_EQ(result->bytes, 80);
  EXPECT_THAT(result->files, ElementsAre(out_));
  EXPECT_EQ(progress.back(), 80);
  const auto file = SafetensorsFile::Open(out_);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::map<std::string, Safetensor> tensors = ByName(*file);
  ASSERT_THAT(tensors, SizeIs(3));
  const Safetensor& rows = tensors.at("a.weight");
  EXPECT_EQ(rows.dtype, "F32");
  EXPECT_THAT(rows.shape, ElementsAre(7, 2));
  for (size_t i = 0; i < 14; ++i) {
    float value;
    std::memcpy(&value, rows.bytes.data() + i * sizeof(value), sizeof(value));
    EXPECT_EQ(value, static_cast<float>(i) + 1.0F / 3) << i;
  }
  EXPECT_EQ(tensors.at("bn.num_batches_tracked").bytes[0], 7);
  EXPECT_THAT(tensors.at("bn.num_batches_tracked").shape, IsEmpty());
}

TEST_F(ExportTest, OnlyFloatsAreConverted) {
  const CheckpointFiles checkpoint = Checkpoint("{}");
  ExportOptions options;
  options.floats = FloatFormat::kBf16;
  ASSERT_TRUE(ExportFile(checkpoint, out_, options).ok());
  const auto file = SafetensorsFile::Open(out_);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::map<std::string, Safetensor> tensors = ByName(*file);
  EXPECT_EQ(tensors.at("b.weight").dtype, "BF16");
  EXPECT_EQ(tensors.at("b.weight").bytes, std::string("\x80\x3F\x00\xC0\x40\x40\x80\x40", 8));
  EXPECT_EQ(tensors.at("bn.num_batches_tracked").dtype, "I64");
  options.floats = FloatFormat::kFp16;
  ASSERT_TRUE(ExportFile(checkpoint, out_, options).ok());
  const auto halves = SafetensorsFile::Open(out_);
  EXPECT_EQ(ByName(*halves).at("b.weight").bytes,
            std::string("\x00\x3C\x00\xC0\x00\x42\x00\x44", 8));
}

TEST_F(ExportTest, ColumnsArePutTogether) {
  Manifest manifest;
  manifest.job_id = "job-0123456789ab";
  manifest.ranks = 3;
  manifest.job_spec = "{}";
  std::vector<float> values;
  for (int i = 0; i < 700 * 501; ++i) values.push_back(static_cast<float>(i % 251));
  TensorToStore large = FloatsToStore("model/large", {700, 501}, values);  // More than one piece.
  TensorToStore small = FloatsToStore("model/small", {2, 3}, {1, 2, 3, 4, 5, 6});
  large.by_columns = true;
  small.by_columns = true;
  WriteCheckpoint(stored_, manifest, {large, small});
  const absl::StatusOr<CheckpointFiles> checkpoint = CheckpointFiles::Open(stored_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->manifest().version, 2);
  ASSERT_TRUE(ExportFile(*checkpoint, out_, {}).ok());
  const auto file = SafetensorsFile::Open(out_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(ByName(*file).at("large").bytes == large.bytes);
  EXPECT_EQ(ByName(*file).at("small").bytes, small.bytes);
  ExportOptions halves;
  halves.floats = FloatFormat::kBf16;
  ASSERT_TRUE(ExportFile(*checkpoint, out_, halves).ok());
  EXPECT_EQ(ByName(*SafetensorsFile::Open(out_)).at("small").bytes.substr(0, 4),
            std::string("\x80\x3F\x00\x40", 4));
  DamageSlice(stored_, "model/small", 1);
  EXPECT_EQ(ExportFile(*checkpoint, out_, {}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ExportTest, DamageIsToldAndLeavesNothing) {
  const CheckpointFiles checkpoint = Checkpoint(kLlama);
  DamageSlice(stored_, "model/a.weight", 1);
  const auto file = ExportFile(checkpoint, out_, {});
  EXPECT_EQ(file.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("shard-00001-of-00003.safetensors"));
  EXPECT_THAT(Names(root_), ElementsAre("step-000000000120.g1"));
  ExportOptions small;
  small.max_file_bytes = 1;
  EXPECT_EQ(ExportHuggingFace(checkpoint, out_, small).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(Names(root_), ElementsAre("step-000000000120.g1"));
}

TEST_F(ExportTest, DirectoryThatWasThereStaysAfterAnError) {
  const CheckpointFiles checkpoint = Checkpoint(kLlama);
  DamageSlice(stored_, "model/b.weight", 0);
  fs::create_directory(out_);
  ExportOptions small;
  small.max_file_bytes = 1;
  EXPECT_FALSE(ExportHuggingFace(checkpoint, out_, small).ok());
  EXPECT_THAT(Names(out_), IsEmpty());
}

TEST_F(ExportTest, HuggingFaceDirectoryOfOneFile) {
  const CheckpointFiles checkpoint = Checkpoint(kLlama);
  ExportOptions options;
  options.floats = FloatFormat::kBf16;
  const auto result = ExportHuggingFace(checkpoint, out_, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->files, ElementsAre(out_ + "/model.safetensors", out_ + "/config.json"));
  EXPECT_THAT(Names(out_), UnorderedElementsAre("model.safetensors", "config.json"));
  EXPECT_EQ(Contents(out_ + "/config.json"), R"({
  "architectures": [
    "LlamaForCausalLM"
  ],
  "attention_bias": false,
  "bos_token_id": null,
  "eos_token_id": null,
  "head_dim": 16,
  "hidden_act": "silu",
  "hidden_size": 64,
  "intermediate_size": 96,
  "max_position_embeddings": 32,
  "mlp_bias": false,
  "model_type": "llama",
  "num_attention_heads": 4,
  "num_hidden_layers": 1,
  "num_key_value_heads": 2,
  "rms_norm_eps": 0.001,
  "rope_theta": 10000.0,
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "vocab_size": 100
}
)");
}

TEST_F(ExportTest, WeightsThatAreBfloat16AreSaidToBe) {
  std::string spec = kLlama;
  spec.insert(1, R"("precision": "BF16_FULL", )");
  const CheckpointFiles checkpoint = Checkpoint(spec);
  const auto result = ExportHuggingFace(checkpoint, out_, ExportOptions());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Contents(out_ + "/config.json"), HasSubstr(R"("torch_dtype": "bfloat16")"));
}

TEST_F(ExportTest, FilesAreSplitAtTheLimit) {
  const CheckpointFiles checkpoint = Checkpoint(kLlama);
  ExportOptions options;
  options.max_file_bytes = 24;  // a.weight is larger; b.weight and the counter just fit.
  const auto result = ExportHuggingFace(checkpoint, out_, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Names(out_), UnorderedElementsAre("model-00001-of-00002.safetensors",
                                                "model-00002-of-00002.safetensors",
                                                "model.safetensors.index.json", "config.json"));
  const auto index = nlohmann::json::parse(Contents(out_ + "/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 80);
  EXPECT_THAT(index["weight_map"], SizeIs(3));
  EXPECT_EQ(index["weight_map"]["a.weight"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["weight_map"]["bn.num_batches_tracked"], "model-00002-of-00002.safetensors");
  const auto second = SafetensorsFile::Open(out_ + "/model-00002-of-00002.safetensors");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(ByName(*second), SizeIs(2));
  options.max_file_bytes = 23;
  EXPECT_THAT(ExportHuggingFace(checkpoint, out_ + "3", options)->files, SizeIs(5));
}

TEST_F(ExportTest, DirectoryWithSomethingInItIsRefused) {
  const CheckpointFiles checkpoint = Checkpoint(kLlama);
  fs::create_directory(out_);
  std::ofstream(out_ + "/mine") << "x";
  EXPECT_EQ(ExportHuggingFace(checkpoint, out_, {}).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Names(out_), ElementsAre("mine"));
  EXPECT_EQ(ExportHuggingFace(checkpoint, root_ + "/no/such", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ExportTest, CancelledExportLeavesNothing) {
  const CheckpointFiles checkpoint = Checkpoint(kLlama);
  ExportOptions options;
  options.max_file_bytes = 24;
  int pieces = 0;
  options.is_cancelled = [&pieces] { return ++pieces == 3; };
  EXPECT_EQ(ExportHuggingFace(checkpoint, out_, options).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(pieces, 3);
  pieces = 0;
  EXPECT_EQ(ExportFile(checkpoint, root_ + "/y.safetensors", options).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_THAT(Names(root_), ElementsAre("step-000000000120.g1"));
}

TEST_F(ExportTest, MissingDirectoryIsNamed) {
  const auto refused = ExportFile(Checkpoint(kLlama), root_ + "/no/y.safetensors", {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      refused.status().message(),
      absl::StrCat("there is no directory ", root_, "/no to write into: make it, or name another"));
}

TEST_F(ExportTest, FileIsNoDirectory) {
  const auto refused = ExportFile(Checkpoint("{}"), root_, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Names(root_), ElementsAre("step-000000000120.g1"));
}

TEST_F(ExportTest, OnlyALlamaHasHuggingFacesLayout) {
  const auto refused = ExportHuggingFace(Checkpoint(R"({"model": {"resnet18": {}}})"), out_, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_EQ(ExportHuggingFace(Checkpoint(R"({"model": 3})"), out_, {}).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paceline
