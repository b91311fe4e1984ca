#include "worker/trainer/telemetry/host_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace paceline {
namespace {

constexpr int64_t kBlock = int64_t{64} << 20;

TEST(HostMemoryTest, PeakShowsWhatWasFreedUntilItIsReset) {
  const HostMemory before = ReadHostMemory();
  ASSERT_GT(before.rss, 0);
  {
    const auto block = std::make_unique<char[]>(kBlock);
    std::memset(block.get(), 1, kBlock);
    EXPECT_GT(ReadHostMemory().rss, before.rss + kBlock / 2);
  }
  const HostMemory after = ReadHostMemory();
  EXPECT_LT(after.rss, before.rss + kBlock / 2);
  EXPECT_GT(after.rss_peak, before.rss + kBlock / 2);
  ResetRssPeak();
  EXPECT_LT(ReadHostMemory().rss_peak, before.rss + kBlock / 2);
}

}  // namespace
}  // namespace paceline
