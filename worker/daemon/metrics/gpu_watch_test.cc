#include "worker/daemon/metrics/gpu_watch.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"

namespace paceline {
namespace {

constexpr char kFake[] = "worker/nvml/libfake_nvml.so";

TEST(GpuWatchTest, TellsAgainAndAgainWhatTheLibraryTells) {
  std::atomic<int> reported{0};
  absl::Notification twice;
  std::vector<GpuFigures> gpus;
  {
    GpuWatch watch(
        [&](const std::vector<GpuFigures>& figures) {
          if (++reported == 2) {
            gpus = figures;
            twice.Notify();
          }
        },
        absl::Milliseconds(1), kFake);
    twice.WaitForNotification();
  }
  const int at_the_end = reported;
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].index, 0);
  EXPECT_EQ(gpus[0].uuid, "GPU-1");
  EXPECT_EQ(gpus[0].utilization, 0.75);
  EXPECT_EQ(gpus[0].memory_used, 40);
  EXPECT_EQ(gpus[0].celsius, 45);
  EXPECT_EQ(gpus[0].joules, 3);
  EXPECT_EQ(gpus[0].throttled, true);
  EXPECT_EQ(gpus[1].index, 1);
  EXPECT_FALSE(gpus[1].utilization.has_value()) << "it says as little as it may";
  EXPECT_EQ(reported, at_the_end) << "nothing is told after the end";
}

TEST(GpuWatchTest, WithoutALibraryNothingIsTold) {
  GpuWatch watch([](const std::vector<GpuFigures>&) { FAIL() << "there is no library"; },
                 absl::Milliseconds(1), "libno-such.so");
}

}  // namespace
}  // namespace paceline
