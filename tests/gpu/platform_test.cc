#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <filesystem>
#include <string>

#include "tests/gpu/gpu_test.h"

namespace paceline {
namespace {

constexpr int64_t kMiB = 1 << 20;

at::Tensor Bytes(int64_t count, c10::Device device) {
  return at::empty({count}, at::TensorOptions().dtype(at::kByte).device(device));
}

using PlatformTest = GpuTest;

TEST_F(PlatformTest, DeviceHasAName) {
  EXPECT_TRUE(device_.is_cuda());
  EXPECT_FALSE(platform_.DeviceName().empty());
}

TEST_F(PlatformTest, GpuThatIsNotThereIsRefused) {
  config_.slot = GpuCount();
  CudaPlatform other;
  EXPECT_EQ(other.OpenDevice(config_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PlatformTest, MemoryIsThatOfTheAllocatorAndPeaksAreReset) {
  const DeviceMemory before = *platform_.Memory();
  EXPECT_GT(before.capacity, 1024 * kMiB);
  at::Tensor large = Bytes(64 * kMiB, device_);
  const at::Tensor small = Bytes(1024, device_);
  const DeviceMemory during = *platform_.Memory();
  EXPECT_GE(during.active, before.active + 64 * kMiB);
  EXPECT_GE(during.large_pool, 64 * kMiB);
  EXPECT_GT(during.small_pool, 0);
  EXPECT_EQ(during.reserved, during.small_pool + during.large_pool);

  large.reset();
  const DeviceMemory after = *platform_.Memory();
  EXPECT_LT(after.active, during.active);
  EXPECT_GE(after.active_peak, during.active);
  platform_.ResetMemoryPeaks();
  EXPECT_EQ(platform_.Memory()->active_peak, platform_.Memory()->active);
}

TEST_F(PlatformTest, SnapshotIsWrittenForTheMemoryViewer) {
  const std::string path = testing::TempDir() + "/snapshot.pickle";
  platform_.RecordMemory(true);
  const at::Tensor tensor = Bytes(kMiB, device_);
  const absl::Status written = platform_.SnapshotMemory(path);
  platform_.RecordMemory(false);
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_GT(std::filesystem::file_size(path), 100);
  EXPECT_EQ(platform_.SnapshotMemory("/nowhere/snapshot.pickle").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PlatformTest, WhatAnOomLeavesIsTold) {
  const std::string path = testing::TempDir() + "/oom.pickle";
  EXPECT_THROW(Bytes(int64_t{1} << 50, device_), c10::OutOfMemoryError);
  const std::string text = platform_.DescribeOutOfMemory(path);
  EXPECT_NE(text.find("reserved"), std::string::npos) << text;
  EXPECT_NE(text.find(path), std::string::npos) << text;
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_GE(platform_.Memory()->ooms, 1);
  EXPECT_NE(platform_.DescribeOutOfMemory("/nowhere/oom.pickle").find("no snapshot"),
            std::string::npos);
}

}  // namespace
}  // namespace paceline
