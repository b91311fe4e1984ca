// A fixture for tests on one GPU. They are skipped where there is none.
#ifndef TESTS_GPU_GPU_TEST_H_
#define TESTS_GPU_GPU_TEST_H_

#include <c10/core/Device.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include "tests/gpu/gpu_count.h"
#include "worker/trainer/comm/cuda_platform.h"

namespace paceline {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    PACELINE_SKIP_WITHOUT_GPU();
    config_.cuda = true;
    const absl::StatusOr<c10::Device> device = platform_.OpenDevice(config_);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }

  // Waits until the device has done all its work.
  static void Synchronize() { c10::cuda::device_synchronize(); }

  TrainerConfig config_;
  CudaPlatform platform_;
  c10::Device device_ = c10::kCPU;
};

}  // namespace paceline

#endif  // TESTS_GPU_GPU_TEST_H_
