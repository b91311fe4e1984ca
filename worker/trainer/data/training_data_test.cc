#include "worker/trainer/data/training_data.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/image_shard/image_shard.h"
#include "common/token_file/token_file.h"
#include "common/token_file/token_file_writer.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/object_store/testing/object_server.h"

namespace paceline {
namespace {

std::string Path(const std::string& name) { return testing::TempDir() + "/joined-" + name; }

// A file with the tokens first, first + 1, ...
std::string MakeTokens(const std::string& name, uint32_t first, uint32_t count,
                       TokenType type = TokenType::kUint16, int64_t vocab_size = 1000) {
  std::vector<uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  absl::StatusOr<TokenFileWriter> writer = TokenFileWriter::Create(Path(name), type, vocab_size);
  EXPECT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(writer->Append(tokens).ok());
  EXPECT_TRUE(writer->Finish().ok());
  return Path(name);
}

std::string MakeShard(const std::string& name, uint32_t classes) {
  EXPECT_TRUE(WriteImageShard(Path(name), {1, 1, 1, classes}, {0, 0}, {1, 2}).ok());
  return Path(name);
}

// Sequences of four tokens of these files.
DataConfig Config(const std::vector<std::string>& paths) {
  DataConfig config;
  config.sequence_length = 4;
  for (const std::string& path : paths) config.sources.push_back({path, 0, ""});
  return config;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenAll(const DataConfig& config) {
  DatasetOpener opener(config);
  return OpenTrainingData(opener);
}

void ExpectError(const DataConfig& config, const std::string& text) {
  const absl::Status status = OpenAll(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
}

std::vector<int64_t> Firsts(const Batch& batch) {
  std::vector<int64_t> firsts;
  for (int64_t row = 0; row < batch.samples; ++row) {
    firsts.push_back(batch.inputs.const_data_ptr<int64_t>()[row * 4]);
  }
  return firsts;
}

TEST(TrainingDataTest, FilesAreOneDataSetOneBehindTheOther) {
  const DataConfig config = Config({MakeTokens("a", 0, 13), MakeTokens("b", 100, 9)});
  const auto dataset = OpenAll(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 5);
  EXPECT_EQ((*dataset)->sizes(), (std::vector<int64_t>{3, 2}));
  Batch batch = (*dataset)->Allocate(6, /*pinned=*/false);
  ASSERT_TRUE((*dataset)->Read({4, 0, 1, 3, 2, 4}, &batch).ok());
  EXPECT_EQ(Firsts(batch), (std::vector<int64_t>{104, 0, 4, 100, 8, 104}));
  EXPECT_EQ(batch.samples, 6);
  EXPECT_EQ(batch.tokens, 24);
  EXPECT_EQ(batch.workload, 96);
  ASSERT_TRUE((*dataset)->Read({3}, &batch).ok());
  EXPECT_EQ(Firsts(batch), (std::vector<int64_t>{100}));
  EXPECT_EQ(MixtureOf(config, **dataset), nullptr);
}

TEST(TrainingDataTest, ImagesAreJoinedToo) {
  DataConfig config = Config({MakeShard("x", 3), MakeShard("y", 3)});
  const auto dataset = OpenAll(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 4);
  Batch batch = (*dataset)->Allocate(2, /*pinned=*/false);
  ASSERT_TRUE((*dataset)->Read({3, 0}, &batch).ok());
  const auto* pixels = batch.inputs.const_data_ptr<float>();
  EXPECT_EQ(pixels[0], (2 / 255.0f - 0.5f) / 0.5f);
  EXPECT_EQ(pixels[1], (1 / 255.0f - 0.5f) / 0.5f);
  EXPECT_EQ(batch.tokens, 0);
  EXPECT_EQ(batch.workload, 2);
}

TEST(TrainingDataTest, WeightsMakeAMixtureOfTheFilesSamples) {
  DataConfig config = Config({MakeTokens("a", 0, 13), MakeTokens("b", 100, 9)});
  config.sources[0].weight = 1;
  config.sources[1].weight = 3;
  const auto dataset = OpenAll(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const std::shared_ptr<const Mixture> mixture = MixtureOf(config, **dataset);
  ASSERT_NE(mixture, nullptr);
  EXPECT_EQ(*mixture, Mixture(std::vector<Mixture::Source>{{3, 1}, {2, 3}}));
  // What the sampler draws is in the data: of 64 samples, 48 of the second file.
  Sampler::Options options;
  options.samples = (*dataset)->size();
  options.batch = 64;
  options.mixture = mixture;
  std::vector<int64_t> indices;
  Sampler(options).Next(&indices);
  Batch batch = (*dataset)->Allocate(64, /*pinned=*/false);
  ASSERT_TRUE((*dataset)->Read(indices, &batch).ok());
  int64_t of_second = 0;
  for (const int64_t first : Firsts(batch)) of_second += first >= 100 ? 1 : 0;
  EXPECT_EQ(of_second, 48);
}

TEST(TrainingDataTest, FilesThatDoNotGoTogetherAreRefused) {
  const std::string tokens = MakeTokens("a", 0, 13);
  ExpectError(Config({tokens, Path("missing")}), "data.train[1].path: ");
  ExpectError(Config({tokens, MakeShard("x", 3)}),
              absl::StrCat("data.train[1].path: ", Path("x"),
                           " holds images of 1 x 1 x 1 in 3 classes, and ", tokens,
                           " uint16 tokens below 1000; all files of data.train are to hold the "
                           "same"));
  ExpectError(Config({MakeShard("x", 3), MakeShard("y", 4)}), "in 4 classes, and ");
  ExpectError(Config({tokens, MakeTokens("wide", 0, 13, TokenType::kUint32)}),
              "holds uint32 tokens below 1000, and ");
  ExpectError(Config({tokens, MakeTokens("other", 0, 13, TokenType::kUint16, 50257)}),
              "holds uint16 tokens below 50257, and ");
  ExpectError(Config({tokens, MakeTokens("short", 0, 4)}), "data.train[1].path: ");
}

TEST(TrainingDataTest, AnotherFileThanTheJobsIsRefused) {
  const std::string path = MakeTokens("a", 0, 13);
  const std::string hash = TokenFile::Open(path)->hash();
  DataConfig config = Config({path});
  config.sources[0].hash = hash;
  EXPECT_TRUE(OpenAll(config).ok());
  DataConfig single;
  single.sequence_length = 4;
  single.train = path;
  single.train_hash = hash;
  EXPECT_TRUE(OpenAll(single).ok());
  MakeTokens("a", 1, 13);
  ExpectError(config,
              "data.train[0].path: " + path + " is not the file that the job was submitted");
  ExpectError(single, "data.train: " + path + " is not the file that the job was submitted with");
  const std::string other = TokenFile::Open(path)->hash();
  ExpectError(config, "or submit the job again, with data.train[0].hash: " + other);
  ExpectError(single, "or submit the job again, with data.train_hash: " + other);
}

TEST(TrainingDataTest, AFileWithoutAHashIsNotTheJobs) {
  DataConfig config;
  config.train = MakeShard("x", 3);
  config.train_hash = std::string(48, 'a');
  ExpectError(config, "its header has no hash, and the job asks for aaaa");
  ExpectError(config, "where this file is the one that `paceline submit` sees");
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

DataConfig StoreConfig(const ObjectServer& server, const std::string& name) {
  DataConfig config;
  config.sequence_length = 4;
  config.object_stores.allowed = {server.url()};
  config.object_stores.cache_directory = Path(name);
  config.object_stores.cache_bytes = 64 << 20;
  return config;
}

TEST(ObjectDataTest, SamplesOfObjectsAreThoseOfTheFiles) {
  ObjectServer server;
  server.Put("/a", BytesOf(MakeTokens("a", 0, 13)));
  DataConfig config = StoreConfig(server, "cache-tokens");
  config.sources = {{server.url() + "/a", 0, TokenFile::Open(Path("a"))->hash()},
                    {MakeTokens("b", 100, 9), 0, ""}};
  const auto data = OpenAll(config);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE((*data)->is_remote());
  ASSERT_EQ((*data)->size(), 5);
  BatchLoader::Options options;
  options.sampler.samples = 5;
  options.sampler.batch = 5;
  options.sampler.shuffle = false;
  BatchLoader loader(**data, options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const absl::StatusOr<Batch> batch = loader.Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(Firsts(*batch), (std::vector<int64_t>{0, 4, 8, 100, 104}));
  }
}

TEST(ObjectDataTest, FiguresAreOfAllObjectsThatAreOpen) {
  ObjectServer server;
  const std::string bytes = BytesOf(MakeTokens("a", 0, 13));
  server.Put("/a", bytes);
  server.Put("/b", bytes);
  const DataConfig config = StoreConfig(server, "cache-figures");
  DatasetOpener opener(config);
  ASSERT_TRUE(opener.Open("data.train", Path("a")).ok());
  EXPECT_FALSE(opener.objects().has_value());
  for (const char* const name : {"/a", "/b"}) {
    ASSERT_TRUE(opener.Open("data.train", server.url() + name).ok());
  }
  ASSERT_TRUE(opener.objects().has_value());
  // To find out what it is, and for the header, with the block that it is in.
  EXPECT_EQ(opener.objects()->fetched_bytes, 2 * (64 + static_cast<int64_t>(bytes.size())));
  EXPECT_EQ(opener.objects()->waited_reads, 2);
}

TEST(ObjectDataTest, AnInterruptEndsOpeningAndIsNoErrorOfTheJobs) {
  ObjectServer server;
  server.Put("/a", BytesOf(MakeTokens("a", 0, 13)));
  const DataConfig config = StoreConfig(server, "cache-interrupt");
  DatasetOpener opener(config);
  {
    const ReadInterrupt::Scope scope(&opener.read_interrupt());
    const absl::Status status = opener.Open("data.train", server.url() + "/a").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "data.train: ")) << status;
  }
  EXPECT_TRUE(opener.Open("data.train", server.url() + "/a").ok());
}

TEST(ObjectDataTest, ImagesOfObjectsAreThoseOfTheFiles) {
  ObjectServer server;
  ASSERT_TRUE(WriteImageShard(Path("images"), {1, 1, 2, 9}, {8, 3}, {0, 255, 255, 0}).ok());
  server.Put("/images", BytesOf(Path("images")));
  DataConfig config = StoreConfig(server, "cache-images");
  std::vector<Batch> batches;
  for (const std::string& path : {Path("images"), server.url() + "/images"}) {
    config.train = path;
    const auto data = OpenAll(config);
    ASSERT_TRUE(data.ok()) << data.status();
    batches.push_back((*data)->Allocate(2, /*pinned=*/false));
    const absl::Status read = (*data)->Read({1, 0}, &batches.back());
    ASSERT_TRUE(read.ok()) << read;
  }
  EXPECT_TRUE(at::equal(batches[0].inputs, batches[1].inputs));
  EXPECT_TRUE(at::equal(batches[0].targets, batches[1].targets));
}

// Each alone has room.
TEST(ObjectDataTest, ObjectsThatTogetherExceedTheCacheAreTold) {
  ObjectServer server;
  DataConfig config = StoreConfig(server, "cache-small");
  for (const char* const name : {"a", "b", "c"}) {
    const std::string bytes = BytesOf(MakeTokens(name, 0, 13));
    config.object_stores.cache_bytes = static_cast<int64_t>(bytes.size()) * 3 / 2;
    server.Put(std::string("/") + name, bytes);
    config.sources.push_back({server.url() + "/" + name, 0, ""});
  }
  for (const bool shuffle : {true, false}) {
    config.shuffle = shuffle;
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(OpenAll(config).ok());
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(absl::StrContains(said, "objects_exceed_cache key=data.train[1].path"), shuffle);
    EXPECT_FALSE(absl::StrContains(said, "key=data.train[2].path")) << "is told once";
  }
}

TEST(ObjectDataTest, AnotherObjectThanTheJobsIsRefused) {
  ObjectServer server;
  server.Put("/a", BytesOf(MakeTokens("a", 0, 13)));
  DataConfig config = StoreConfig(server, "cache-other");
  config.train = server.url() + "/a";
  config.train_hash = std::string(48, '0');
  ExpectError(config, "data.train_hash");
  // Without a header; `paceline submit` sees no objects.
  server.Put("/a", std::string(26, '\0'));
  config.token_type = DataConfig::TokenType::kUint16;
  ExpectError(config, "or submit the job again, without data.train_hash");
  config.token_type = DataConfig::TokenType::kInHeader;
  config.object_stores.allowed = {};
  ExpectError(config, "--object-store");
  server.Put("/a", "no tokens at all");
  config = StoreConfig(server, "cache-other");
  config.train = server.url() + "/a";
  ExpectError(config, "neither an image shard nor a token file");
}

}  // namespace
}  // namespace paceline
