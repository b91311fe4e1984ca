#include "worker/trainer/core/device_peak.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(DevicePeakTest, DevicesAreFoundByTheirVendorsNames) {
  EXPECT_EQ(DevicePeakFlops("NVIDIA H200"), 989e12);
  EXPECT_EQ(DevicePeakFlops("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(DevicePeakFlops("NVIDIA L40S"), 362e12);
  EXPECT_EQ(DevicePeakFlops("nvidia rtx a6000"), 154.85e12);
  EXPECT_EQ(DevicePeakFlops("AMD Instinct MI300X"), 1.3e15);
}

TEST(DevicePeakTest, TheLongestNameCounts) {
  EXPECT_EQ(DevicePeakFlops("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(DevicePeakFlops("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(DevicePeakFlops("NVIDIA H100 NVL"), 835e12);
  EXPECT_EQ(DevicePeakFlops("NVIDIA H20"), 148e12);
  EXPECT_EQ(DevicePeakFlops("NVIDIA B200"), 2.25e15);
  EXPECT_EQ(DevicePeakFlops("NVIDIA GB200"), 2.5e15);
}

TEST(DevicePeakTest, AnUnknownDeviceHasNoPeak) {
  EXPECT_EQ(DevicePeakFlops("NVIDIA GeForce RTX 3090"), std::nullopt);
  EXPECT_EQ(DevicePeakFlops("NVIDIA RTX A1000"), std::nullopt);
  EXPECT_EQ(DevicePeakFlops("NVIDIA L40"), std::nullopt);
  EXPECT_EQ(DevicePeakFlops(""), std::nullopt);
}

// Llama-3 8B at sequence length 8192: 57,914,449,920 operations per token.
TEST(DevicePeakTest, MfuOfPublishedThroughputs) {
  constexpr double kPerToken = 57'914'449'920;
  EXPECT_NEAR(*Mfu(kPerToken * 5861, 1, 989e12), 0.3432, 5e-5);
  EXPECT_NEAR(*Mfu(kPerToken * 1000, 1, 989e12), 0.05856, 5e-6);
  EXPECT_NEAR(*Mfu(kPerToken * 500, 0.5, 312e12), 0.18562, 5e-6);
}

TEST(DevicePeakTest, AnImpossibleUtilisationIsNotTold) {
  EXPECT_EQ(Mfu(1.01e12, 1, 1e12), std::nullopt);
  EXPECT_EQ(Mfu(1e12, 1, 1e12), 1);
  EXPECT_EQ(Mfu(1e12, 0, 1e12), std::nullopt);
  EXPECT_EQ(Mfu(0, 1, 1e12), std::nullopt);
}

}  // namespace
}  // namespace paceline
