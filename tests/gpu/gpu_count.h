// Whether this machine has what the tests here need.
#ifndef TESTS_GPU_GPU_COUNT_H_
#define TESTS_GPU_GPU_COUNT_H_

namespace paceline {

// GPUs that CUDA can use here; 0 also without a driver.
int GpuCount();

}  // namespace paceline

// The body of SetUp of a test that needs a GPU, to begin with.
#define PACELINE_SKIP_WITHOUT_GPU() \
  if (GpuCount() == 0) GTEST_SKIP() << "no GPU"

#endif  // TESTS_GPU_GPU_COUNT_H_
