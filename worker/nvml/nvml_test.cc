#include "worker/nvml/nvml.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(NvmlTest, TellsWhatTheLibraryTells) {
  const auto nvml = Nvml::Open("worker/nvml/libfake_nvml.so");
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(nvml->Gpus(), 2);
  EXPECT_EQ(nvml->Name(0), "Fake GPU");
  EXPECT_EQ(nvml->Celsius(0), 45);
  EXPECT_EQ(nvml->EccErrors(0), 2);
  EXPECT_EQ(nvml->Throttled(0), true);
  EXPECT_EQ(nvml->Uuid(0), "GPU-1");
  EXPECT_EQ(nvml->Utilization(0), 0.75);
  EXPECT_EQ(nvml->MemoryUsed(0), 40);
  EXPECT_EQ(nvml->MemoryCapacity(0), 100);
  EXPECT_EQ(nvml->Joules(0), 1.5);
  EXPECT_EQ(nvml->SmHertz(0), 1.98e9);
}

TEST(NvmlTest, WhatTheLibraryDoesNotTellIsUnknown) {
  const auto nvml = Nvml::Open("worker/nvml/libfake_nvml.so");
  ASSERT_NE(nvml, nullptr);
  for (const int gpu : {1, 7}) {
    EXPECT_EQ(nvml->Name(gpu), "unknown GPU");
    EXPECT_FALSE(nvml->Celsius(gpu).has_value());
    EXPECT_FALSE(nvml->EccErrors(gpu).has_value());
    EXPECT_FALSE(nvml->Throttled(gpu).has_value());
    EXPECT_EQ(nvml->Uuid(gpu), "");
    EXPECT_FALSE(nvml->Utilization(gpu).has_value());
    EXPECT_FALSE(nvml->MemoryUsed(gpu).has_value());
    EXPECT_FALSE(nvml->MemoryCapacity(gpu).has_value());
    EXPECT_FALSE(nvml->Joules(gpu).has_value());
    EXPECT_FALSE(nvml->SmHertz(gpu).has_value());
  }
  EXPECT_FALSE(nvml->RemappingFailed(0).has_value()) << "a call that this library lacks";
}

TEST(NvmlTest, NoLibraryIsNoNvml) { EXPECT_EQ(Nvml::Open("libno-such.so"), nullptr); }

}  // namespace
}  // namespace paceline
