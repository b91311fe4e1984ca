#include "worker/trainer/core/device_peak.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

double Bf16(const std::string& device) { return PeaksOfDevice(device).value().bf16; }

TEST(DevicePeakTest, DevicesAreFoundByTheirVendorsNames) {
  EXPECT_EQ(Bf16("NVIDIA H200"), 989e12);
  EXPECT_EQ(Bf16("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(Bf16("NVIDIA L40S"), 362e12);
  EXPECT_EQ(Bf16("nvidia rtx a6000"), 154.85e12);
  EXPECT_EQ(Bf16("AMD Instinct MI300X"), 1307.4e12);
  EXPECT_EQ(Bf16("NVIDIA GH200 480GB"), 989e12);
  EXPECT_EQ(Bf16("NVIDIA A10"), 125e12);
  EXPECT_EQ(Bf16("NVIDIA A30"), 165e12);
  EXPECT_EQ(Bf16("NVIDIA A40"), 149.7e12);
  EXPECT_EQ(Bf16("NVIDIA L4"), 121e12);
}

TEST(DevicePeakTest, TheLongestNameCounts) {
  EXPECT_EQ(Bf16("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(Bf16("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(Bf16("NVIDIA H100 NVL"), 835e12);
  EXPECT_EQ(Bf16("NVIDIA H200 NVL"), 835e12);
  EXPECT_EQ(Bf16("NVIDIA H20"), 148e12);
  EXPECT_EQ(Bf16("NVIDIA B200"), 2.25e15);
  EXPECT_EQ(Bf16("NVIDIA GB200"), 2.5e15);
}

TEST(DevicePeakTest, AnUnknownDeviceHasNoPeak) {
  for (const char* const name : {"NVIDIA GeForce RTX 3090", "NVIDIA RTX A1000", "NVIDIA RTX A4000",
                                 "NVIDIA A10G", "NVIDIA A30X", "NVIDIA T400", "NVIDIA T4G",
                                 "NVIDIA L40", "NVIDIA H2000", "NVIDIA XA10", ""}) {
    EXPECT_FALSE(PeaksOfDevice(name).has_value()) << name;
  }
}

TEST(DevicePeakTest, ASliceOfADeviceHasNoPeak) {
  for (const char* const name :
       {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "GRID A100-10C",
        "NVIDIA A10-24Q", "NVIDIA A40-8C", "NVIDIA A100-1-5CME"}) {
    EXPECT_FALSE(PeaksOfDevice(name).has_value()) << name;
  }
}

TEST(DevicePeakTest, EachFormatHasItsOwnPeak) {
  const DevicePeaks h100 = PeaksOfDevice("NVIDIA H100 80GB HBM3").value();
  EXPECT_DOUBLE_EQ(*PeakFlops(h100, {1e9, 0, 0, 0}, {}), 989e12);
  EXPECT_DOUBLE_EQ(*PeakFlops(h100, {0, 1e9, 0, 0}, {}), 67e12);
  EXPECT_DOUBLE_EQ(*PeakFlops(h100, {0, 1e9, 0, 0}, {/*matrices=*/true, false}), 494.5e12);
  EXPECT_DOUBLE_EQ(*PeakFlops(h100, {0, 1e9, 0, 0}, {false, /*convolutions=*/true}), 67e12);
  EXPECT_DOUBLE_EQ(*PeakFlops(h100, {0, 0, 1e9, 0}, {false, /*convolutions=*/true}), 494.5e12);
}

// Three quarters at 100, one quarter at 20: 0.75/100 + 0.25/20 = 0.02 seconds per operation.
TEST(DevicePeakTest, AMixTakesTheSumOfTheTimesAtItsPeaks) {
  const DevicePeaks peaks{100, 50, 20};
  EXPECT_DOUBLE_EQ(*PeakFlops(peaks, {3, 1, 0, 0}, {}), 50);
  EXPECT_DOUBLE_EQ(*PeakFlops(peaks, {3, 1, 0, 0}, {true, true}), 80);
  EXPECT_DOUBLE_EQ(*PeakFlops(peaks, Flops{3, 1, 0, 0} * 7, {true, true}), 80);
}

TEST(DevicePeakTest, WhatHasNoKnownPeakIsNotGuessed) {
  const DevicePeaks h20 = PeaksOfDevice("NVIDIA H20").value();
  EXPECT_DOUBLE_EQ(*PeakFlops(h20, {1, 0, 0, 0}, {}), 148e12);
  EXPECT_EQ(PeakFlops(h20, {1e9, 1, 0, 0}, {}), std::nullopt);
  const DevicePeaks t4 = PeaksOfDevice("Tesla T4").value();
  EXPECT_EQ(PeakFlops(t4, {1e9, 0, 0, 0}, {}), std::nullopt) << "it has no bfloat16";
  EXPECT_DOUBLE_EQ(*PeakFlops(t4, {0, 1e9, 1e9, 0}, {false, /*convolutions=*/true}), 8.1e12);
  EXPECT_EQ(PeakFlops({1, 1, 1}, {1, 1, 1, 1}, {}), std::nullopt) << "one of other formats";
  EXPECT_EQ(PeakFlops({1, 1, 1}, {}, {}), std::nullopt);
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
