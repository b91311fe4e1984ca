#include "worker/trainer/data/image_batches.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

// Three images of two channels, one row, two columns.
ImageShard MakeShard() {
  const std::string path = testing::TempDir() + "/shard";
  const std::vector<uint8_t> pixels = {0, 255, 128, 51, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_TRUE(WriteImageShard(path, {2, 1, 2, 9}, {8, 0, 4}, pixels).ok());
  absl::StatusOr<ImageShard> shard = ImageShard::Open(path);
  EXPECT_TRUE(shard.ok()) << shard.status();
  return *std::move(shard);
}

TEST(ImageBatchesTest, PixelsAreScaledToMinusOneToOne) {
  const ImageShard shard = MakeShard();
  ImageBatches batches(shard, 1, at::kCPU);
  const ImageBatch batch = batches.Load({0});
  EXPECT_EQ(batch.images.sizes().vec(), (std::vector<int64_t>{1, 2, 1, 2}));
  const float* pixels = batch.images.const_data_ptr<float>();
  EXPECT_EQ(pixels[0], -1.0f);
  EXPECT_EQ(pixels[1], 1.0f);
  EXPECT_EQ(pixels[2], (128 / 255.0f - 0.5f) / 0.5f);
  EXPECT_NEAR(pixels[3], -0.6, 1e-6);
}

TEST(ImageBatchesTest, TakesTheWantedImagesInTheirOrder) {
  const ImageShard shard = MakeShard();
  ImageBatches batches(shard, 3, at::kCPU);
  const ImageBatch batch = batches.Load({2, 0, 2});
  EXPECT_EQ(batch.labels.const_data_ptr<int64_t>()[0], 4);
  EXPECT_EQ(batch.labels.const_data_ptr<int64_t>()[1], 8);
  EXPECT_TRUE(batch.images[0].equal(batch.images[2]));
  EXPECT_EQ(batch.images[1].const_data_ptr<float>()[0], -1.0f);
}

TEST(ImageBatchesTest, SmallerBatchHasItsOwnSize) {
  const ImageShard shard = MakeShard();
  ImageBatches batches(shard, 3, at::kCPU);
  const ImageBatch batch = batches.Load({1});
  EXPECT_EQ(batch.images.size(0), 1);
  EXPECT_EQ(batch.labels.size(0), 1);
  EXPECT_EQ(batch.labels.item<int64_t>(), 0);
}

}  // namespace
}  // namespace paceline
