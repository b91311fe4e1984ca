#include "common/metrics/metric_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/testing/metric_lint.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<MetricFamily> kTable = {
    {"paceline_jobs", MetricType::kGauge, "jobs", "state", "Jobs by state."},
    {"paceline_steps_total", MetricType::kCounter, "steps", "", "Steps."},
    {"paceline_wait_seconds", MetricType::kHistogram, "seconds", "", "Wait.", {1, 5}},
};

TEST(MetricRegistryTest, FamiliesHaveTheTablesNamesHelpsAndBuckets) {
  MetricRegistry registry(kTable);
  registry.NewGauges("paceline_jobs").Add({{"state", "queued"}}).Set(3);
  EXPECT_THAT(registry.Unregistered(),
              ElementsAre("paceline_steps_total", "paceline_wait_seconds"));
  RaiseTo(registry.NewCounters("paceline_steps_total").Add({}), 7);
  registry.NewHistograms("paceline_wait_seconds").Add({}).Observe(2);
  EXPECT_THAT(registry.Unregistered(), IsEmpty());
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("# HELP paceline_jobs Jobs by state.\n# TYPE paceline_jobs gauge\n"
                              "paceline_jobs{state=\"queued\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("paceline_steps_total 7\n"));
  EXPECT_THAT(text, HasSubstr("paceline_wait_seconds_bucket{le=\"1\"} 0\n"
                              "paceline_wait_seconds_bucket{le=\"5\"} 1\n"));
}

TEST(MetricRegistryTest, LabelValuesOfUsersAreEscaped) {
  MetricRegistry registry(kTable);
  registry.NewGauges("paceline_jobs").Add({{"state", "a\"b\\c\nd"}}).Set(1);
  EXPECT_THAT(registry.Text(), HasSubstr("paceline_jobs{state=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(MetricRegistryTest, CounterIsNeverLowered) {
  MetricRegistry registry(kTable);
  prometheus::Counter& counter = registry.NewCounters("paceline_steps_total").Add({});
  RaiseTo(counter, 7);
  RaiseTo(counter, 5);
  EXPECT_EQ(counter.Value(), 7);
}

TEST(MetricRegistryDeathTest, WhatIsNotInTheTableEndsTheProcess) {
  MetricRegistry registry(kTable);
  EXPECT_DEATH(registry.NewGauges("paceline_nodes"), "not in the table");
  EXPECT_DEATH(registry.NewCounters("paceline_jobs"), "of another type");
  registry.NewGauges("paceline_jobs");
  EXPECT_DEATH(registry.NewGauges("paceline_jobs"), "there twice");
}

TEST(ProcessMetricsTest, TellsOfThisProcess) {
  const std::vector<MetricFamily> table = ProcessFamilies();
  EXPECT_THAT(LintMetrics(table), IsEmpty());
  MetricRegistry registry(table);
  ProcessMetrics metrics(registry);
  EXPECT_THAT(registry.Unregistered(), IsEmpty());
  metrics.Read();
  const std::string text = registry.Text();
  const auto value_of = [&](const std::string& name) {
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(text.substr(at + name.size() + 2));
  };
  EXPECT_GT(value_of("process_resident_memory_bytes"), 1e5);
  EXPECT_GT(value_of("process_virtual_memory_bytes"), value_of("process_resident_memory_bytes"));
  EXPECT_GE(value_of("process_threads"), 1);
  EXPECT_GE(value_of("process_open_fds"), 3);
  EXPECT_GT(value_of("process_max_fds"), value_of("process_open_fds"));
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(value_of("process_start_time_seconds"), now + 1);
  EXPECT_GT(value_of("process_start_time_seconds"), now - 3600);
}

}  // namespace
}  // namespace paceline
