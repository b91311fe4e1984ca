// Tests that need no GPU; the others are in tests/gpu/platform_test.cc.
#include "worker/trainer/cuda/cuda_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(CudaMemoryTest, FiguresAreToldInWords) {
  DeviceMemory memory;
  memory.active = 70 * kGiB;
  memory.active_peak = 75 * kGiB;
  memory.reserved = 77 * kGiB;
  memory.reserved_peak = 78 * kGiB;
  memory.small_pool = kGiB / 2;
  memory.large_pool = 76 * kGiB + kGiB / 2;
  memory.capacity = 80 * kGiB;
  memory.alloc_retries = 3;
  memory.ooms = 1;
  EXPECT_EQ(DescribeDeviceMemory(memory),
            "GPU memory: 70.00 GiB in use (peak 75.00 GiB), 77.00 GiB reserved (peak 78.00 GiB; "
            "small pool 0.50 GiB, large pool 76.50 GiB) of 80.00 GiB; 3 allocations retried, 1 "
            "failed");
}

TEST(CudaMemoryTest, WhatCannotBeToldOfAnOomIsNoFailure) {
  const c10::Device absent(c10::kCUDA, 99);
  EXPECT_NE(DescribeDeviceOutOfMemory(absent, "").find("no more can be told"), std::string::npos);
}

}  // namespace
}  // namespace paceline
