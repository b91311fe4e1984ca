// Checks whether this machine has the GPU that the tests here need.
#ifndef TESTS_GPU_GPU_COUNT_H_
#define TESTS_GPU_GPU_COUNT_H_

namespace paceline {

// GPUs that CUDA can use here; 0 also without a driver.
int GpuCount();

}  // namespace paceline

// Put this first in SetUp() of a test that needs a GPU.
#define PACELINE_SKIP_WITHOUT_GPU() \
  if (GpuCount() == 0) GTEST_SKIP() << "no GPU"

#endif  // TESTS_GPU_GPU_COUNT_H_
