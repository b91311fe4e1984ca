#include "worker/trainer/data/dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/token_file/token_file_writer.h"
#include "worker/trainer/data/open_dataset.h"

namespace paceline {
namespace {

using Type = DataConfig::TokenType;

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string FileWith(const std::string& name, const std::string& bytes) {
  std::ofstream(Path(name), std::ios::binary) << bytes;
  return Path(name);
}

// Three images of two channels, one row, two columns.
std::string MakeShard() {
  const std::vector<uint8_t> pixels = {0, 255, 128, 51, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_TRUE(WriteImageShard(Path("shard"), {2, 1, 2, 9}, {8, 0, 4}, pixels).ok());
  return Path("shard");
}

// A file with the tokens 0, 1, 2, ...
std::string MakeTokens(uint32_t count, TokenType type) {
  std::vector<uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  absl::StatusOr<TokenFileWriter> writer = TokenFileWriter::Create(Path("tokens"), type, count);
  EXPECT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(writer->Append(tokens).ok());
  EXPECT_TRUE(writer->Finish().ok());
  return Path("tokens");
}

DataConfig Config(int64_t sequence_length, Type type = Type::kInHeader) {
  DataConfig config;
  config.sequence_length = sequence_length;
  config.token_type = type;
  return config;
}

std::unique_ptr<Dataset> Open(const std::string& path, const DataConfig& config) {
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = OpenDataset("data.train", path, config);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : nullptr;
}

void ExpectError(const std::string& path, const DataConfig& config, const std::string& text) {
  const absl::Status status = OpenDataset("data.train", path, config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StartsWith(status.message(), "data.train: ")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
}

std::vector<int64_t> Numbers(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<int64_t>();
  return {data, data + tensor.numel()};
}

TEST(ImageDatasetTest, PixelsAreScaledToMinusOneToOne) {
  const auto dataset = Open(MakeShard(), {});
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->format().image->classes, 9u);
  EXPECT_FALSE(dataset->format().sequence_length.has_value());
  Batch batch = dataset->Allocate(1, /*pinned=*/false);
  ASSERT_TRUE(dataset->Read({0}, &batch).ok());
  EXPECT_EQ(batch.inputs.sizes().vec(), (std::vector<int64_t>{1, 2, 1, 2}));
  const auto* pixels = batch.inputs.const_data_ptr<float>();
  EXPECT_EQ(pixels[0], -1.0f);
  EXPECT_EQ(pixels[1], 1.0f);
  EXPECT_EQ(pixels[2], (128 / 255.0f - 0.5f) / 0.5f);
  EXPECT_NEAR(pixels[3], -0.6, 1e-6);
}

TEST(ImageDatasetTest, EveryPixelByteHasItsFloat) {
  std::vector<uint8_t> pixels(256);
  std::iota(pixels.begin(), pixels.end(), 0);
  ASSERT_TRUE(WriteImageShard(Path("all"), {1, 16, 16, 1}, {0}, pixels).ok());
  const auto dataset = Open(Path("all"), {});
  Batch batch = dataset->Allocate(1, /*pinned=*/false);
  ASSERT_TRUE(dataset->Read({0}, &batch).ok());
  for (int p = 0; p < 256; ++p) {
    EXPECT_EQ(batch.inputs.const_data_ptr<float>()[p],
              (static_cast<float>(p) / 255.0f - 0.5f) / 0.5f);
  }
}

TEST(ImageDatasetTest, TakesTheWantedImagesInTheirOrder) {
  const auto dataset = Open(MakeShard(), {});
  Batch batch = dataset->Allocate(3, /*pinned=*/false);
  ASSERT_TRUE(dataset->Read({2, 0, 2}, &batch).ok());
  EXPECT_EQ(Numbers(batch.targets), (std::vector<int64_t>{4, 8, 4}));
  EXPECT_TRUE(batch.inputs[0].equal(batch.inputs[2]));
  EXPECT_EQ(batch.inputs[1].const_data_ptr<float>()[0], -1.0f);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.tokens, 0);
  EXPECT_EQ(batch.workload, 3);
}

TEST(ImageDatasetTest, ABatchMayBecomeSmallerAndLargerAgain) {
  const auto dataset = Open(MakeShard(), {});
  Batch batch = dataset->Allocate(3, /*pinned=*/false);
  const void* const memory = batch.inputs.const_data_ptr();
  for (const std::vector<int64_t>& indices :
       {std::vector<int64_t>{1}, {0, 1, 2}, {2, 1}, {1, 2, 0}}) {
    ASSERT_TRUE(dataset->Read(indices, &batch).ok());
    const auto size = static_cast<int64_t>(indices.size());
    EXPECT_EQ(batch.inputs.sizes().vec(), (std::vector<int64_t>{size, 2, 1, 2}));
    EXPECT_EQ(batch.targets.size(0), size);
    EXPECT_EQ(batch.samples, size);
    EXPECT_EQ(batch.inputs.const_data_ptr(), memory);
  }
}

TEST(TokenDatasetTest, TargetsAreTheTokensAfterTheInputs) {
  for (TokenType type : {TokenType::kUint16, TokenType::kUint32}) {
    const auto dataset = Open(MakeTokens(20, type), Config(4));
    EXPECT_EQ(dataset->size(), 4);
    EXPECT_EQ(dataset->format().sequence_length, 4);
    Batch batch = dataset->Allocate(2, /*pinned=*/false);
    ASSERT_TRUE(dataset->Read({3, 0}, &batch).ok());
    EXPECT_EQ(batch.inputs.sizes().vec(), (std::vector<int64_t>{2, 4}));
    EXPECT_EQ(Numbers(batch.inputs), (std::vector<int64_t>{12, 13, 14, 15, 0, 1, 2, 3}));
    EXPECT_EQ(Numbers(batch.targets), (std::vector<int64_t>{13, 14, 15, 16, 1, 2, 3, 4}));
    EXPECT_EQ(batch.samples, 2);
    EXPECT_EQ(batch.tokens, 8);
    EXPECT_EQ(batch.workload, 2 * 16);
  }
}

TEST(TokenDatasetTest, TheLastTokenIsATarget) {
  EXPECT_EQ(Open(MakeTokens(9, TokenType::kUint16), Config(4))->size(), 2);
  EXPECT_EQ(Open(MakeTokens(8, TokenType::kUint16), Config(4))->size(), 1);
}

TEST(TokenDatasetTest, FilesWithoutAHeaderNeedAType) {
  const std::string path = FileWith("headerless", std::string("\1\0\2\0\3\0\4\0", 8));
  const auto dataset = Open(path, Config(3, Type::kUint16));
  Batch batch = dataset->Allocate(1, /*pinned=*/false);
  ASSERT_TRUE(dataset->Read({0}, &batch).ok());
  EXPECT_EQ(Numbers(batch.targets), (std::vector<int64_t>{2, 3, 4}));
  ExpectError(path, Config(3), "data.token_type");
}

TEST(TokenDatasetTest, TokensThatTheModelDoesNotHaveAreNamed) {
  DataConfig config = Config(2, Type::kUint16);
  config.vocab_size = 5;
  const std::string path = FileWith("wild", std::string("\1\0\2\0\3\0\4\0\5\0", 10));
  const auto dataset = Open(path, config);
  Batch batch = dataset->Allocate(1, /*pinned=*/false);
  EXPECT_TRUE(dataset->Read({0}, &batch).ok());
  const absl::Status status = dataset->Read({1}, &batch);  // The token appears as a target.
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(),
                                path + ": at offset 8: token 5 is not less than model.vocab_size, "
                                       "which is 5"))
      << status;
  config.vocab_size = 6;
  EXPECT_TRUE(Open(path, config)->Read({1}, &batch).ok());
}

TEST(TokenDatasetTest, AVocabularyBeyondTheModelsIsRefused) {
  const std::string path = MakeTokens(20, TokenType::kUint16);
  DataConfig config = Config(4);
  config.vocab_size = 19;
  ExpectError(path, config,
              "holds tokens below 20, as its header says, but model.vocab_size is 19; give at "
              "least 20");
  config.vocab_size = 20;
  EXPECT_NE(Open(path, config), nullptr);
}

TEST(TokenDatasetTest, AFileThatIsCutWhileItIsReadIsAnErrorNotASignal) {
  const std::string path = MakeTokens(10000, TokenType::kUint32);
  const auto dataset = Open(path, Config(100));
  Batch batch = dataset->Allocate(1, /*pinned=*/false);
  ASSERT_TRUE(dataset->Read({98}, &batch).ok());
  ASSERT_EQ(::truncate(path.c_str(), 8192), 0);
  const absl::Status status = dataset->Read({98}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(status.message(), path + ": at offset 8192: ")) << status;
}

TEST(ImageDatasetTest, AFileThatIsCutWhileItIsReadIsAnErrorNotASignal) {
  const std::string path = MakeShard();
  const auto dataset = Open(path, {});
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  Batch batch = dataset->Allocate(1, /*pinned=*/false);
  const absl::Status status = dataset->Read({0}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(status.message(), path + ": at offset 0: ")) << status;
}

TEST(OpenDatasetTest, SaysCompletelyWhatIsWrong) {
  ExpectError(Path("missing"), {}, "No such file");
  ExpectError(testing::TempDir(), {}, "no regular file");
  ExpectError(FileWith("empty", ""), {}, "empty");
  ExpectError(FileWith("short", "PCLTOKEN"), {}, "at offset 8: truncated");
  ExpectError(FileWith("text", "once upon a time"), {},
              "at offset 0: neither an image shard nor a token file");
  ExpectError(FileWith("odd", "abcde"), Config(1, Type::kUint32), "at offset 4: truncated");
  ExpectError(MakeTokens(10, TokenType::kUint16), Config(10),
              "has 10 tokens; one sequence of 10 needs 11");
  ExpectError(MakeTokens(10, TokenType::kUint16), Config(4, Type::kUint32),
              "holds uint16 tokens, as its header says, but data.token_type is uint32");
  ExpectError(MakeShard(), Config(4, Type::kUint32), "is an image shard");
  EXPECT_NE(Open(MakeTokens(10, TokenType::kUint16), Config(4, Type::kUint16)), nullptr);
}

}  // namespace
}  // namespace paceline
