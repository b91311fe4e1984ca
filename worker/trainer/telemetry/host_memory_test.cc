#include "worker/trainer/telemetry/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace paceline {
namespace {

constexpr int64_t kBlock = int64_t{64} << 20;

TEST(HostMemoryTest, PeakShowsWhatWasFreedUntilItIsReset) {
  const HostMemory before = ReadHostMemory();
  ASSERT_GT(before.rss, 0);
  // Memory from the kernel, not from an allocator, which may keep what is freed.
  void* const block =
      mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBlock);
  EXPECT_GT(ReadHostMemory().rss, before.rss + kBlock / 2);
  munmap(block, kBlock);
  const HostMemory after = ReadHostMemory();
  EXPECT_LT(after.rss, before.rss + kBlock / 2);
  EXPECT_GT(after.rss_peak, before.rss + kBlock / 2);
  ResetRssPeak();
  EXPECT_LT(ReadHostMemory().rss_peak, before.rss + kBlock / 2);
}

}  // namespace
}  // namespace paceline
