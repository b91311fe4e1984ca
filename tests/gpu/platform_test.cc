#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

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

TEST_F(PlatformTest, TheFirstStepBeginsWithoutUnusedMemoryPeaksAndCounts) {
  at::Tensor large = Bytes(64 * kMiB, device_);
  EXPECT_THROW(Bytes(platform_.Memory()->capacity * 2, device_), c10::Error);
  large.reset();
  const DeviceMemory before = *platform_.Memory();
  EXPECT_GE(before.large_pool, 64 * kMiB);
  EXPECT_GE(before.large_pool_peak, 64 * kMiB);
  EXPECT_GT(before.ooms, 0);
  platform_.StartMemoryFigures();
  const DeviceMemory after = *platform_.Memory();
  EXPECT_LE(after.large_pool, before.large_pool - 64 * kMiB);
  EXPECT_EQ(after.large_pool_peak, after.large_pool);
  EXPECT_EQ(after.small_pool_peak, after.small_pool);
  EXPECT_EQ(after.reserved_peak, after.reserved);
  EXPECT_EQ(after.active_peak, after.active);
  EXPECT_EQ(after.alloc_retries, 0);
  EXPECT_EQ(after.ooms, 0);
}

// As of an optimizer that keeps its step counts there.
TEST_F(PlatformTest, HostMemoryBetweenPiecesOfTheDeviceMayChangeAtOnce) {
  std::vector<char> copied(static_cast<size_t>(3 * kMiB));
  std::vector<at::Tensor> sources;
  std::vector<HostCopyPiece> pieces;
  for (const c10::Device device : {device_, c10::Device(c10::kCPU), device_}) {
    const size_t place = sources.size();
    sources.push_back(Bytes(kMiB, device).fill_(static_cast<int64_t>(place) + 1));
    pieces.push_back({static_cast<const char*>(sources.back().const_data_ptr()),
                      copied.data() + place * static_cast<size_t>(kMiB),
                      static_cast<size_t>(kMiB)});
  }
  const std::unique_ptr<HostCopy> copy = platform_.StartHostCopy(pieces);
  sources[1].fill_(9);
  for (size_t place = 0; place < pieces.size(); ++place) {
    copy->Wait((place + 1) * static_cast<size_t>(kMiB));
    const auto begin = copied.begin() + static_cast<std::ptrdiff_t>(place) * kMiB;
    EXPECT_EQ(std::count(begin, begin + kMiB, static_cast<char>(place + 1)), kMiB) << place;
  }
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
