#include "worker/daemon/checks/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(HardwareTest, KnowsThisMachine) {
  const v1::Hardware hardware = ReadHardware();
  EXPECT_GE(hardware.cpus(), 1);
  EXPECT_GT(hardware.memory_bytes(), 1 << 20);
  EXPECT_EQ(hardware.gpu_memory_bytes_size(), hardware.gpus_size());
  EXPECT_THAT(hardware.os(), ::testing::StartsWith("Linux "));
}

}  // namespace
}  // namespace paceline
