#include "worker/daemon/metrics/figure_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "worker/daemon/metrics/metric_families.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const TrainerId kId{JobId("job-1"), Generation(2), Rank(3)};

class FigureMetricsTest : public ::testing::Test {
 protected:
  std::string Text() const { return registry_.Text(); }

  MetricRegistry registry_{WorkerFamilies()};
  FigureMetrics metrics_{registry_};
  v1::RankFigures figures_;
};

TEST_F(FigureMetricsTest, WhatIsNotKnownHasNoSeries) {
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
  figures_.set_steps(10);
  figures_.set_grad_norm(std::numeric_limits<double>::quiet_NaN());
  figures_.mutable_memory()->set_rss(1000);
  metrics_.Set(kId, figures_, {});
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("paceline_trainer_learning_rate{generation=\"2\",job_id=\"job-1\","
                              "rank=\"3\"} 0"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_memory_rss_bytes{"));
  for (const char* name :
       {"mfu_ratio", "mfu_wall_ratio", "tokens_per_second", "grad_norm", "plan_version",
        "memory_active_bytes", "memory_capacity_bytes", "ooms_total", "drift"}) {
    EXPECT_THAT(text, Not(HasSubstr(std::string("paceline_trainer_") + name + "{")));
  }
}

TEST_F(FigureMetricsTest, SeriesEndsWhenItsFigureIsNoLongerKnown) {
  figures_.set_steps(10);
  figures_.set_mfu(0.4);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), HasSubstr("paceline_trainer_mfu_ratio{"));
  figures_.clear_mfu();
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), Not(HasSubstr("paceline_trainer_mfu_ratio{")));
}

TEST_F(FigureMetricsTest, FlopsWithTheirSourceUntilForgotten) {
  const std::string series =
      "paceline_trainer_flops_per_second{generation=\"2\",job_id=\"job-1\",rank=\"3\",source=\"";
  figures_.set_steps(10);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), Not(HasSubstr(series)));
  EXPECT_THAT(Text(), Not(HasSubstr("paceline_trainer_peak_flops_per_second{")));
  figures_.set_flops_per_s(3000);
  figures_.set_flops_source(v1::FLOPS_COUNTED);
  figures_.set_peak_flops(6000);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), HasSubstr(series + "counted\"} 3000"));
  EXPECT_THAT(Text(), HasSubstr("paceline_trainer_peak_flops_per_second{generation=\"2\",job_id="
                                "\"job-1\",rank=\"3\"} 6000"));
  figures_.set_flops_source(v1::FLOPS_GIVEN);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), HasSubstr(series + "given\"} 3000"));
  EXPECT_THAT(Text(), Not(HasSubstr(series + "counted")));
  metrics_.Forget(kId);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
}

TEST_F(FigureMetricsTest, DeviceAndPlan) {
  figures_.set_steps(10);
  figures_.set_tokens_per_s(2000);
  figures_.set_loss(1.5);
  figures_.set_grad_norm(0.25);
  figures_.set_drift(0.125);
  figures_.set_data_wait_share(0.5);
  figures_.set_skipped_steps(2);
  figures_.mutable_memory()->set_reserved_peak(4096);
  figures_.mutable_memory()->set_small_pool_peak(1024);
  figures_.mutable_memory()->set_large_pool_peak(2048);
  figures_.mutable_memory()->set_alloc_retries(3);
  v1::PlanStatus plan;
  plan.set_active_version(7);
  metrics_.Set(kId, figures_, plan);
  const std::string text = Text();
  const std::string labels = "{generation=\"2\",job_id=\"job-1\",rank=\"3\"} ";
  EXPECT_THAT(text, HasSubstr("paceline_trainer_tokens_per_second" + labels + "2000"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_mean_loss" + labels + "1.5"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_grad_norm" + labels + "0.25"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_drift" + labels + "0.125"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_data_wait_ratio" + labels + "0.5"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_memory_reserved_peak_bytes" + labels + "4096"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_memory_small_pool_peak_bytes" + labels + "1024"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_memory_large_pool_peak_bytes" + labels + "2048"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_alloc_retries_total" + labels + "3"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_skipped_steps_total" + labels + "2"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_plan_version" + labels + "7"));
}

TEST_F(FigureMetricsTest, ReadsOfObjectsUntilForgotten) {
  figures_.set_steps(10);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), Not(HasSubstr("paceline_trainer_object_fetched_bytes_total{")));
  v1::ObjectFigures& objects = *figures_.mutable_objects();
  objects.set_fetched_bytes(2);
  objects.set_retries(3);
  objects.set_cached_reads(4);
  objects.set_waited_reads(5);
  objects.set_wait_s(6.5);
  metrics_.Set(kId, figures_, {});
  const std::string labels = "{generation=\"2\",job_id=\"job-1\",rank=\"3\"} ";
  const std::string name = "paceline_trainer_object_";
  EXPECT_THAT(Text(), HasSubstr(name + "fetched_bytes_total" + labels + "2"));
  EXPECT_THAT(Text(), HasSubstr(name + "retries_total" + labels + "3"));
  EXPECT_THAT(Text(), HasSubstr(name + "cached_reads_total" + labels + "4"));
  EXPECT_THAT(Text(), HasSubstr(name + "waited_reads_total" + labels + "5"));
  EXPECT_THAT(Text(), HasSubstr(name + "wait_seconds_total" + labels + "6.5"));
  metrics_.Forget(kId);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
}

TEST_F(FigureMetricsTest, SlipstreamWithItsModeUntilForgotten) {
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), Not(HasSubstr("paceline_slipstream_rounds_total{")));
  v1::SlipstreamFigures& slipstream = *figures_.mutable_slipstream();
  slipstream.set_mode(v1::SLIPSTREAM_FREE);
  slipstream.set_rounds(2);
  slipstream.set_contributing_ranks(3);
  slipstream.set_contributions(4);
  slipstream.set_stale_rounds(5);
  slipstream.set_steps(6);
  slipstream.set_sent_updates(7);
  slipstream.set_lost_updates(8);
  slipstream.set_used_gradients(9);
  slipstream.set_dropped_gradients(10);
  slipstream.set_window_s(11);
  slipstream.set_cap(12);
  slipstream.set_cap_wait_s(13);
  slipstream.set_round_wait_s(14);
  slipstream.set_collective_s(15);
  slipstream.set_drift(16);
  metrics_.Set(kId, figures_, {});
  const std::string labels = "{generation=\"2\",job_id=\"job-1\",rank=\"3\"} ";
  const std::vector<std::string> names = {"rounds_total",
                                          "contributing_ranks_total",
                                          "contributions_total",
                                          "stale_rounds_total",
                                          "steps_total",
                                          "sent_updates_total",
                                          "lost_updates_total",
                                          "used_gradients_total",
                                          "dropped_gradients_total",
                                          "window_seconds",
                                          "cap_steps",
                                          "cap_wait_seconds_total",
                                          "round_wait_seconds_total",
                                          "collective_seconds_total",
                                          "drift"};
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_THAT(Text(), HasSubstr("paceline_slipstream_" + names[i] + labels +
                                  std::to_string(2 + i) + "\n"));
  }
  const std::string mode = "paceline_slipstream_mode{generation=\"2\",job_id=\"job-1\",mode=\"";
  EXPECT_THAT(Text(), HasSubstr(mode + "free\",rank=\"3\"} 1"));
  slipstream.set_mode(v1::SLIPSTREAM_DROP);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), HasSubstr(mode + "drop\",rank=\"3\"} 1"));
  EXPECT_THAT(Text(), Not(HasSubstr(mode + "free\"")));
  metrics_.Forget(kId);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
}

TEST_F(FigureMetricsTest, CommunicationByGroupSizeAndKindUntilForgotten) {
  for (const bool gradients : {true, false}) {
    v1::LevelFigures& level = *figures_.add_levels();
    level.set_group_size(4);
    level.set_gradients(gradients);
    level.set_count(5);
    level.set_seconds(1.5);
    level.set_bytes(800);
  }
  metrics_.Set(kId, figures_, {});
  metrics_.Set(kId, figures_, {});
  const std::string text = Text();
  for (const char* kind : {"gradients", "parameters"}) {
    const std::string labels = std::string(
                                   "{generation=\"2\",group_size=\"4\",job_id=\"job-1\","
                                   "kind=\"") +
                               kind + "\",rank=\"3\"} ";
    EXPECT_THAT(text, HasSubstr("paceline_trainer_communication_seconds_total" + labels + "1.5"));
    EXPECT_THAT(text, HasSubstr("paceline_trainer_communication_bytes_total" + labels + "800"));
    EXPECT_THAT(text, HasSubstr("paceline_trainer_communications_total" + labels + "5"));
  }
  metrics_.Forget(kId);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
}

TEST_F(FigureMetricsTest, WhatAScriptReportsByNameUntilItIsGone) {
  const auto report = [this](const std::string& name, double value) {
    v1::ReportedNumber& number = *figures_.add_reported();
    number.set_name(name);
    number.set_value(value);
  };
  const auto series = [](const std::string& name) {
    return "paceline_trainer_reported{generation=\"2\",job_id=\"job-1\",name=\"" + name +
           "\",rank=\"3\"} ";
  };
  report("train/loss", 2.5);
  report("accuracy", 0.5);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), HasSubstr(series("train/loss") + "2.5"));
  EXPECT_THAT(Text(), HasSubstr(series("accuracy") + "0.5"));
  figures_.clear_reported();
  report("accuracy", 0.75);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), HasSubstr(series("accuracy") + "0.75"));
  EXPECT_THAT(Text(), Not(HasSubstr("train/loss")));
  for (int i = 0; i < 100; ++i) report("more_" + std::to_string(i), 1);
  metrics_.Set(kId, figures_, {});
  EXPECT_THAT(Text(), HasSubstr(series("more_30")));
  EXPECT_THAT(Text(), Not(HasSubstr(series("more_31")))) << "at most 32 series";
  metrics_.Forget(kId);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
}

}  // namespace
}  // namespace paceline
