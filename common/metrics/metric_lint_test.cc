#include "common/metrics/testing/metric_lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;
constexpr MetricType kHistogram = MetricType::kHistogram;

TEST(LintMetricsTest, GoodOnesPass) {
  EXPECT_THAT(
      LintMetrics({{"paceline_job_steps_lost_total", kCounter, "steps", "job_id", "Steps."},
                   {"paceline_wait_seconds", kHistogram, "seconds", "queue", "Wait.", {0.1, 1}},
                   {"paceline_node_info", kGauge, "info", "node rack", "Facts."},
                   {"paceline_tokens_per_second", kGauge, "tokens per second", "", "Pace."}}),
      IsEmpty());
}

TEST(LintMetricsTest, EachFaultIsFound) {
  const auto faults_of = [](const MetricFamily& family) { return LintMetrics({family}); };
  EXPECT_THAT(faults_of({"paceline_steps", kCounter, "steps", "", "Steps."}),
              ElementsAre(HasSubstr("_total")));
  EXPECT_THAT(faults_of({"paceline_jobs_total", kGauge, "jobs", "", "Jobs."}),
              ElementsAre(HasSubstr("_total")));
  EXPECT_THAT(faults_of({"paceline_Jobs", kGauge, "jobs", "", "Jobs."}),
              ElementsAre(HasSubstr("snake_case")));
  EXPECT_THAT(faults_of({"paceline_wait_ms", kGauge, "time", "", "Wait."}),
              ElementsAre(HasSubstr("no base unit")));
  EXPECT_THAT(faults_of({"paceline_wait", kGauge, "seconds", "", "Wait."}),
              ElementsAre(HasSubstr("does not end in it")));
  EXPECT_THAT(faults_of({"paceline_wait_seconds", kGauge, "jobs", "", "Wait."}),
              ElementsAre(HasSubstr("is in jobs")));
  EXPECT_THAT(faults_of({"paceline_node_facts", kGauge, "info", "", "Facts."}),
              ElementsAre(HasSubstr("_info")));
  EXPECT_THAT(faults_of({"paceline_rank_count", kGauge, "ranks", "", "Ranks."}),
              ElementsAre(HasSubstr("_count")));
  EXPECT_THAT(faults_of({"paceline_jobs", kGauge, "jobs", "", "Jobs"}),
              ElementsAre(HasSubstr("no sentence")));
  EXPECT_THAT(faults_of({"paceline_jobs", kGauge, "", "", "Jobs."}),
              ElementsAre(HasSubstr("no unit")));
  EXPECT_THAT(faults_of({"paceline_jobs", kGauge, "jobs", "job", "Jobs."}),
              ElementsAre(HasSubstr("Prometheus'")));
  EXPECT_THAT(faults_of({"paceline_jobs", kGauge, "jobs", "queue queue", "Jobs."}),
              ElementsAre(HasSubstr("twice")));
  EXPECT_THAT(faults_of({"paceline_jobs", kGauge, "jobs", "", "Jobs.", {1}}),
              ElementsAre(HasSubstr("buckets")));
  EXPECT_THAT(faults_of({"paceline_size_bytes", kHistogram, "bytes", "", "Size.", {2, 2}}),
              ElementsAre(HasSubstr("do not grow")));
  const MetricFamily good = {"paceline_jobs", kGauge, "jobs", "", "Jobs."};
  EXPECT_THAT(LintMetrics({good, good}), ElementsAre(HasSubstr("there twice")));
}

}  // namespace
}  // namespace paceline
