// The detector allocates nothing after its construction. This test is a binary of its own, as it
// counts calls of operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "controller/core/stragglers/detector/detector.h"
#include "controller/core/stragglers/detector/testing/sample_job.h"

namespace {

int64_t allocations = 0;

}  // namespace

void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace paceline {
namespace {

TEST(DetectorAllocationTest, NoneAfterConstruction) {
  SampleJob job(64, 4, 4);
  StragglerDetector detector(DetectorOptions(), job.ranks);
  job.verdicts.reserve(1000);
  job.change = [](StepSample& sample) {
    const bool slow = sample.rank == 9 || (sample.rank == 30 && sample.step % 60 < 30) ||
                      (sample.rank >= 48 && sample.step > 400);
    if (slow) sample.backward_s *= 1.5;
    if (sample.rank == 5) sample.data_wait_s += 0.3;
    if (sample.rank == 7 && sample.step % 5 == 0) sample.forward_s = -1;
    if (sample.rank == 8 && sample.step > 200) sample.step += 40;
    sample.masked = sample.step % 100 == 0;
  };
  const int64_t before = allocations;
  job.Play(detector, 800);
  detector.Close(job.verdicts);
  EXPECT_EQ(allocations, before);
  EXPECT_GE(job.verdicts.size(), 10U);
}

}  // namespace
}  // namespace paceline
