#include "worker/daemon/metrics/gpu_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/daemon/metrics/metric_families.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuMetricsTest, WhatIsKnownIsShownInBaseUnits) {
  MetricRegistry registry(WorkerFamilies());
  GpuMetrics metrics(registry);
  EXPECT_THAT(registry.Text(), Not(HasSubstr("\npaceline_gpu_"))) << "a node without GPUs";
  GpuFigures gpu;
  gpu.index = 3;
  gpu.uuid = "GPU-1";
  gpu.utilization = 0.75;
  gpu.memory_used = 40;
  gpu.memory_capacity = 100;
  gpu.celsius = 45;
  gpu.joules = 1.5;
  gpu.sm_hertz = 1.98e9;
  gpu.throttled = true;
  gpu.ecc_errors = 2;
  gpu.row_remap_failed = false;
  metrics.Set({gpu}, absl::FromUnixSeconds(1700000000));
  const std::string labels = "{gpu=\"3\",uuid=\"GPU-1\"} ";
  for (const auto& series :
       {"utilization_ratio" + labels + "0.75", "memory_used_bytes" + labels + "40",
        "memory_capacity_bytes" + labels + "100", "temperature_celsius" + labels + "45",
        "energy_joules_total" + labels + "1.5", "sm_clock_hertz" + labels + "1980000000",
        "throttled" + labels + "1", "ecc_errors" + labels + "2", "row_remap_failed" + labels + "0",
        std::string("last_read_timestamp_seconds 1700000000")}) {
    EXPECT_THAT(registry.Text(), HasSubstr("paceline_gpu_" + series + "\n"));
  }
  // The driver no longer reports the temperature.
  gpu.celsius.reset();
  metrics.Set({gpu}, absl::FromUnixSeconds(1700000005));
  EXPECT_THAT(registry.Text(), Not(HasSubstr("paceline_gpu_temperature_celsius{")));
  EXPECT_THAT(registry.Text(), HasSubstr("paceline_gpu_ecc_errors" + labels));
}

}  // namespace
}  // namespace paceline
