#include "worker/daemon/metrics/trainer_checkpoint_metrics.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "worker/daemon/metrics/metric_families.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const TrainerId kId{JobId("job-1"), Generation(2), Rank(3)};

class TrainerCheckpointMetricsTest : public ::testing::Test {
 protected:
  void Set(const std::string& figures) {
    v1::CheckpointFigures message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(figures, &message));
    metrics_.Set(kId, message);
  }

  // Expects the series to show `value`.
  void Expect(const std::string& name, const std::string& label, const std::string& value) const {
    const std::string before = label < "g" ? label : "";
    const std::string between = label > "g" ? label + "," : "";
    EXPECT_THAT(Text(),
                HasSubstr("paceline_trainer_checkpoint_" + name + "{" + before +
                          (before.empty() ? "" : ",") + "generation=\"2\",job_id=\"job-1\"," +
                          between + "rank=\"3\"} " + value + "\n"));
  }

  std::string Text() const { return registry_.Text(); }

  MetricRegistry registry_{WorkerFamilies()};
  TrainerCheckpointMetrics metrics_{registry_};
};

TEST_F(TrainerCheckpointMetricsTest, EveryTotalHasItsSeries) {
  Set("saves: 1 bytes: 2 skipped: 3 staging_s: 4 blocked_s: 5 write_s: 6 committing_s: 7 "
      "restore_s: 8 failures { key: 1 value: 9 } failures { key: 2 value: 10 } "
      "failures { key: 3 value: 11 } failures { key: 4 value: 12 } failures { key: 5 value: 13 }");
  Expect("saves_total", "", "1");
  Expect("bytes_total", "", "2");
  Expect("skipped_total", "", "3");
  Expect("seconds_total", "op=\"stage\"", "4");
  Expect("seconds_total", "op=\"blocked\"", "5");
  Expect("seconds_total", "op=\"write\"", "6");
  Expect("seconds_total", "op=\"commit\"", "7");
  Expect("seconds_total", "op=\"restore\"", "8");
  Expect("failures_total", "cause=\"no_space\"", "9");
  Expect("failures_total", "cause=\"no_permission\"", "10");
  Expect("failures_total", "cause=\"io\"", "11");
  Expect("failures_total", "cause=\"not_agreed\"", "12");
  Expect("failures_total", "cause=\"inconsistent\"", "13");
}

TEST_F(TrainerCheckpointMetricsTest, SeriesBeginAtZeroAndGrow) {
  Set("");
  Expect("saves_total", "", "0");
  Expect("failures_total", "cause=\"io\"", "0");
  Set("saves: 2 write_s: 1.5");
  Set("saves: 3 write_s: 2.5");
  Expect("saves_total", "", "3");
  Expect("seconds_total", "op=\"write\"", "2.5");
}

TEST_F(TrainerCheckpointMetricsTest, ForgottenTrainerHasNoSeries) {
  Set("saves: 2");
  metrics_.Forget(kId);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
  metrics_.Forget(kId);
}

}  // namespace
}  // namespace paceline
