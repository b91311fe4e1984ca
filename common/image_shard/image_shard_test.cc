#include "common/image_shard/image_shard.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/types/span.h"

namespace paceline {
namespace {

// Three 2x1x2 images (an odd number, so that the labels need padding).
const ImageFormat kFormat{2, 1, 2, 10};
constexpr std::array<uint32_t, 3> kLabels = {9, 0, 3};
constexpr std::array<uint8_t, 12> kPixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
constexpr size_t kPixelsOffset = 80;

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string Contents() {
  const std::string path = Path("contents");
  EXPECT_TRUE(WriteImageShard(path, kFormat, kLabels, kPixels).ok());
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

absl::Status OpenBytes(const std::string& bytes) {
  const std::string path = Path("bytes");
  std::ofstream(path, std::ios::binary) << bytes;
  return ImageShard::Open(path).status();
}

// Opens `Contents()` with `value` written at `offset`.
template <typename T>
absl::Status OpenWith(size_t offset, T value) {
  std::string bytes = Contents();
  std::memcpy(&bytes[offset], &value, sizeof(value));
  return OpenBytes(bytes);
}

void ExpectDamage(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), Path("bytes"))) << status;
}

TEST(ImageShardTest, ReadsBackWhatWasWritten) {
  const std::string path = Path("round_trip");
  ASSERT_TRUE(WriteImageShard(path, kFormat, kLabels, kPixels).ok());
  absl::StatusOr<ImageShard> opened = ImageShard::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ImageShard shard = *std::move(opened);
  EXPECT_EQ(shard.size(), 3);
  EXPECT_EQ(shard.format().channels, 2u);
  EXPECT_EQ(shard.format().height, 1u);
  EXPECT_EQ(shard.format().width, 2u);
  EXPECT_EQ(shard.format().classes, 10u);
  EXPECT_EQ(shard.labels(), absl::MakeConstSpan(kLabels));
  EXPECT_EQ(absl::MakeConstSpan(shard.image(0), 12), absl::MakeConstSpan(kPixels));
  EXPECT_EQ(shard.image(2)[3], 255);
}

TEST(ImageShardTest, LayoutIsTheDocumentedOne) {
  const std::string bytes = Contents();
  EXPECT_EQ(bytes.size(), kPixelsOffset + 12);
  EXPECT_EQ(bytes.substr(0, 8), "PCLIMAGE");
  EXPECT_EQ(bytes[8], 1);
  EXPECT_EQ(bytes[16], 3);
  EXPECT_EQ(bytes[64], 9);
  EXPECT_EQ(bytes[kPixelsOffset + 11], '\xff');
}

TEST(ImageShardTest, EveryTruncationIsNoticed) {
  const std::string bytes = Contents();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectDamage(OpenBytes(bytes.substr(0, size)),
                 "at offset " + std::to_string(size) + ": truncated");
  }
}

TEST(ImageShardTest, BytesAfterTheEndAreNoticed) {
  ExpectDamage(OpenBytes(Contents() + "x"), "at offset 92: 1 bytes too many");
}

TEST(ImageShardTest, OtherFilesAreNotShards) {
  ExpectDamage(OpenWith(0, 'Q'), "at offset 0: not an image shard");
}

TEST(ImageShardTest, NewerVersionIsRefusedWithBothVersions) {
  const absl::Status status = OpenWith(8, uint32_t{2});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), "version 2")) << status;
}

TEST(ImageShardTest, ImpossibleHeaderFieldsAreRefused) {
  ExpectDamage(OpenWith(8, uint32_t{0}), "at offset 8: ");
  ExpectDamage(OpenWith(12, uint32_t{7}), "at offset 12: unknown pixel type 7");
  ExpectDamage(OpenWith(16, uint64_t{0}), "at offset 16: no images");
  ExpectDamage(OpenWith(28, uint32_t{0}), "at offset 24: ");
  ExpectDamage(OpenWith(36, uint32_t{0}), "at offset 24: ");
  ExpectDamage(OpenWith(40, uint64_t{0}), "at offset 40: ");
  ExpectDamage(OpenWith(48, uint64_t{64}), "at offset 48: ");
}

TEST(ImageShardTest, SizesThatOverflowAreRefused) {
  ExpectDamage(OpenWith(16, ~uint64_t{0}), "at offset 16: ");
  std::string bytes = Contents();
  std::memset(&bytes[16], 0xff, 20);
  ExpectDamage(OpenBytes(bytes), "at offset 16: ");
}

TEST(ImageShardTest, LabelBeyondTheClassesIsNamedWithItsOffset) {
  ExpectDamage(OpenWith(64 + 4, uint32_t{10}), "at offset 68: label 10 of image 1");
}

TEST(ImageShardTest, MissingFileIsNotFound) {
  EXPECT_EQ(ImageShard::Open(Path("missing")).status().code(), absl::StatusCode::kNotFound);
}

TEST(ImageShardTest, WriterRefusesWhatItsReaderWouldRefuse) {
  const std::string path = Path("refused");
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(WriteImageShard(path, {2, 1, 0, 10}, kLabels, kPixels).code(), code);
  EXPECT_EQ(WriteImageShard(path, {2, 1, 2, 9}, kLabels, kPixels).code(), code);
  EXPECT_EQ(WriteImageShard(path, {1, 1, 2, 10}, kLabels, kPixels).code(), code);
  EXPECT_EQ(WriteImageShard(path, kFormat, {}, {}).code(), code);
  EXPECT_FALSE(std::ifstream(path).good());
}

}  // namespace
}  // namespace paceline
