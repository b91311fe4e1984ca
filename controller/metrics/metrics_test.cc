#include "controller/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/metrics/testing/metric_lint.h"
#include "controller/metrics/metric_families.h"
#include "controller/testing/played_metrics.h"
#include "proto/worker.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kJob[] = "{job_id=\"job-1\"}";

std::string Of(const std::string& name) { return name + kJob; }
std::string Of(const std::string& name, const std::string& label, const std::string& value) {
  const std::string mine = label + "=\"" + value + "\"";
  return label < "job_id" ? name + "{" + mine + ",job_id=\"job-1\"}"
                          : name + "{job_id=\"job-1\"," + mine + "}";
}

using ControllerMetricsTest = PlayedMetrics;

TEST_F(ControllerMetricsTest, TableIsRightAndAllOfItIsRegistered) {
  EXPECT_THAT(LintMetrics(ControllerFamilies()), IsEmpty());
  EXPECT_THAT(metrics_.registry().Unregistered(), IsEmpty());
}

TEST_F(ControllerMetricsTest, OnlySuspectsHaveRanks) {
  for (const MetricFamily& family : ControllerFamilies()) {
    if (std::string(family.name) == "paceline_straggler_slowdown_ratio") continue;
    EXPECT_THAT(std::string(" ") + family.labels + " ", Not(HasSubstr(" rank "))) << family.name;
  }
}

TEST_F(ControllerMetricsTest, ControllerTellsOfItself) {
  EXPECT_EQ(Value("paceline_controller_leader"), "0");
  metrics_.SetLeads(true);
  EXPECT_EQ(Value("paceline_controller_leader"), "1");
  EXPECT_THAT(Text(), Not(HasSubstr("\npaceline_certificate_expiry_timestamp_seconds")));
  metrics_.ShowCertificateEnd(absl::FromUnixSeconds(86400));
  metrics_.ShowCertificateEnd(std::nullopt);
  EXPECT_EQ(Value("paceline_certificate_expiry_timestamp_seconds"), "86400");
  metrics_.WorkerConnected(true);
  metrics_.RequestReplayed();
  metrics_.Committed(absl::Milliseconds(2));
  metrics_.EventTaken(absl::Microseconds(200));
  metrics_.LoopDelayed(absl::Milliseconds(3));
  metrics_.QueuesSeen(7, 2);
  metrics_.job_watches().open.Increment();
  metrics_.node_watches().resyncs.Increment();
  EXPECT_EQ(Value("paceline_build_info{component=\"controller\",version=\"1.0\"}"), "1");
  EXPECT_EQ(Value("paceline_worker_sessions"), "1");
  EXPECT_EQ(Value("paceline_request_replays_total"), "1");
  EXPECT_EQ(Value("paceline_state_commit_duration_seconds_bucket{le=\"0.001\"}"), "0");
  EXPECT_EQ(Value("paceline_state_commit_duration_seconds_bucket{le=\"0.0025\"}"), "1");
  EXPECT_EQ(Value("paceline_controller_event_duration_seconds_count"), "1");
  EXPECT_EQ(Value("paceline_controller_loop_delay_seconds_sum"), "0.003");
  EXPECT_EQ(Value("paceline_controller_loop_queue_tasks"), "7");
  EXPECT_EQ(Value("paceline_state_commit_queue_batches"), "2");
  EXPECT_EQ(Value("paceline_watch_streams{resource=\"jobs\"}"), "1");
  EXPECT_EQ(Value("paceline_watch_streams{resource=\"nodes\"}"), "0");
  EXPECT_EQ(Value("paceline_watch_resyncs_total{resource=\"nodes\"}"), "1");
  EXPECT_EQ(Value("paceline_state_size_bytes"), "4096");
  EXPECT_THAT(Text(), HasSubstr("\nprocess_open_fds "));
}

TEST_F(ControllerMetricsTest, JobThatWaitsHasNoSeriesButIsCounted) {
  metrics_.ShowCluster(cluster_, At(0));
  EXPECT_EQ(Value("paceline_queue_jobs{queue=\"default\",state=\"queued\"}"), "0");
  Apply(JobSubmitted{PlayedRequest()}, 1);
  Refresh(2);
  EXPECT_EQ(Value("paceline_queue_jobs{queue=\"default\",state=\"queued\"}"), "1");
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
  Apply(CancelRequested{JobId("job-1"), "no", absl::ZeroDuration()}, 3);
  Refresh(4);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
  EXPECT_EQ(Value("paceline_queue_jobs{queue=\"default\",state=\"queued\"}"), "0");
  EXPECT_EQ(Value("paceline_queue_jobs{queue=\"default\",state=\"cancelled\"}"), "1");
  EXPECT_EQ(
      Value("paceline_jobs_finished_total{failure=\"none\",queue=\"default\",state=\"cancelled\"}"),
      "1");
}

TEST_F(ControllerMetricsTest, RunningJobIsShownWithWhatItHoldsAndDoes) {
  Join({"a", "b", "c"});
  JobRequest request = PlayedRequest();
  request.spares = 1;
  request.recovery.max_failures = 1;
  Apply(JobSubmitted{request}, 1);
  Tell(TrainerState::kRunning, 4);
  Tell(TrainerState::kRunning, 5, 7);
  AddStep(0.5, 0.125, 32, 100);
  AddStep(0.5, 0.125, 32, 100);
  Refresh(24);
  EXPECT_EQ(Value("paceline_job_info{device=\"cpu\",job_id=\"job-1\",job_name=\"digits\",queue="
                  "\"default\",strategy=\"ddp\"}"),
            "1");
  EXPECT_EQ(Value(Of("paceline_job_state", "state", "running")), "1");
  EXPECT_EQ(Value(Of("paceline_job_state", "state", "queued")), "0");
  EXPECT_EQ(Value(Of("paceline_job_created_timestamp_seconds")), "1700000001");
  EXPECT_EQ(Value(Of("paceline_job_attempt")), "1");
  EXPECT_EQ(Value(Of("paceline_job_generation")), "1");
  EXPECT_EQ(Value(Of("paceline_job_plan_version")), "1");
  EXPECT_EQ(Value(Of("paceline_job_ranks", "role", "active")), "2");
  EXPECT_EQ(Value(Of("paceline_job_ranks", "role", "spare")), "1");
  EXPECT_EQ(Value(Of("paceline_job_ranks", "role", "leaving")), "0");
  EXPECT_EQ(Value(Of("paceline_job_nodes", "role", "active")), "2");
  EXPECT_EQ(Value(Of("paceline_job_nodes", "role", "spare")), "1");
  EXPECT_EQ(Value(Of("paceline_job_spares_wanted")), "1");
  EXPECT_EQ(Value(Of("paceline_job_gpus")), "0");
  EXPECT_EQ(Value(Of("paceline_job_step")), "7");
  EXPECT_EQ(Value(Of("paceline_job_steps_executed_total")), "7");
  EXPECT_EQ(Value(Of("paceline_job_steps_lost_total")), "0");
  EXPECT_EQ(Value(Of("paceline_job_samples_total")), "64");
  EXPECT_EQ(Value(Of("paceline_job_tokens_total")), "200");
  EXPECT_EQ(Value(Of("paceline_job_step_duration_seconds_count")), "2");
  EXPECT_EQ(Value(Of("paceline_job_phase_seconds_total", "phase", "data_wait")), "0.25");
  EXPECT_EQ(Value(Of("paceline_job_phase_seconds_total", "phase", "forward")), "0.75");
  // One of two ranks has reported a second; the rest of 20 s is in no step, except for what may
  // still be reported late.
  EXPECT_EQ(Value(Of("paceline_job_time_seconds_total", "category", "startup")), "3");
  EXPECT_EQ(Value(Of("paceline_job_time_seconds_total", "category", "productive")), "0.375");
  EXPECT_EQ(Value(Of("paceline_job_time_seconds_total", "category", "data_wait")), "0.125");
  EXPECT_EQ(Value(Of("paceline_job_time_seconds_total", "category", "outside_steps")), "8");
  EXPECT_EQ(Value(Of("paceline_job_last_progress_timestamp_seconds")), "1700000024");
  EXPECT_EQ(Value("paceline_job_start_duration_seconds_sum{queue=\"default\"}"), "3");
  EXPECT_EQ(Value("paceline_job_queue_wait_seconds_count{queue=\"default\"}"), "1");
}

TEST_F(ControllerMetricsTest, EachStepOfABatchCounts) {
  Join({"a", "b"});
  Train(1);
  v1::StepBatch batch;
  for (const int64_t forward_ns : {125'000'000, 250'000'000, 750'000'000}) {
    v1::StepRecord& record = *batch.add_records();
    record.set_total_ns(500'000'000);
    record.set_forward_ns(forward_ns);
  }
  metrics_.AddSteps(JobId("job-1"), batch);
  metrics_.AddSteps(JobId("job-unknown"), batch);
  EXPECT_EQ(Value(Of("paceline_job_step_duration_seconds_count")), "3");
  EXPECT_EQ(Value(Of("paceline_job_step_duration_seconds_sum")), "1.5");
  EXPECT_EQ(Value(Of("paceline_job_phase_seconds_total", "phase", "forward")), "1.125");
  EXPECT_EQ(Value(Of("paceline_job_phase_seconds_total", "phase", "idle")), "0.625")
      << "the last step tells of more than it took, which takes nothing away";
}

TEST_F(ControllerMetricsTest, LossHasNoSeriesBeforeAllRanksHaveOne) {
  Join({"a", "b"});
  Train(1);
  const auto tell_loss = [&](int rank, double loss, double at) {
    TrainerReport report = PlayedReport(job(), rank, TrainerState::kRunning);
    report.progress.step = 7;
    report.progress.step_time = absl::Seconds(1);
    report.progress.loss = loss;
    Apply(NodeReported{job().ranks[static_cast<size_t>(rank)].slot.node, {report}}, at);
  };
  Refresh(2);
  EXPECT_EQ(Value(Of("paceline_job_loss")), "");
  EXPECT_EQ(Value(Of("paceline_job_step")), "0") << "that is known";
  EXPECT_EQ(Value(Of("paceline_job_samples_per_second")), "0");
  tell_loss(0, 0.25, 3);
  Refresh(4);
  EXPECT_EQ(Value(Of("paceline_job_loss")), "") << "the mean would be wrong";
  tell_loss(0, 0, 4.2);
  tell_loss(1, 0, 4.2);
  Refresh(4.5);
  EXPECT_EQ(Value(Of("paceline_job_loss")), "") << "as of a watched script";
  tell_loss(0, 0.25, 5);
  tell_loss(1, 0.75, 5);
  Refresh(6);
  EXPECT_EQ(Value(Of("paceline_job_loss")), "0.5");
  Tell(TrainerState::kExited, 10);
  Refresh(11);
  EXPECT_EQ(Value(Of("paceline_job_loss")), "0.5") << "the last one, until the job is forgotten";
  Refresh(10 + absl::ToDoubleSeconds(kEndedJobSeries));
  EXPECT_THAT(Text(), Not(HasSubstr("paceline_job_loss{")));
}

TEST_F(ControllerMetricsTest, SavesThatFailAndTheLatestEvaluationAreShown) {
  Join({"a", "b"});
  Train(1);
  const auto tell = [&](int rank, const SaveStatus& save, double at) {
    TrainerReport report = PlayedReport(job(), rank, TrainerState::kRunning);
    report.saves = {save};
    if (rank == 0) report.evaluation = Evaluation{20, 0.75, 0.5, 100};
    Apply(NodeReported{job().ranks[static_cast<size_t>(rank)].slot.node, {report}}, at);
  };
  Refresh(2);
  EXPECT_EQ(Value(Of("paceline_job_saves_fail")), "0");
  EXPECT_EQ(Value(Of("paceline_job_evaluation_loss")), "") << "there was none yet";
  for (const int rank : {0, 1}) tell(rank, Reported(20, SaveState::kFailed), 3);
  Refresh(4);
  EXPECT_EQ(Value(Of("paceline_job_saves_fail")), "1");
  EXPECT_EQ(Value(Of("paceline_job_evaluation_loss")), "0.5");
  EXPECT_EQ(Value(Of("paceline_job_evaluation_accuracy_ratio")), "0.75");
  for (const int rank : {0, 1}) tell(rank, Reported(40, SaveState::kDurable), 5);
  tell(0, Reported(40, SaveState::kCommitted), 6);
  Refresh(7);
  EXPECT_EQ(Value(Of("paceline_job_saves_fail")), "0");
}

TEST_F(ControllerMetricsTest, EndedJobsSeriesDisappear) {
  Join({"a", "b"});
  Train(1);
  Tell(TrainerState::kExited, 10);
  ASSERT_EQ(job().state, JobState::kSucceeded);
  Refresh(11);
  EXPECT_EQ(Value(Of("paceline_job_state", "state", "succeeded")), "1");
  EXPECT_EQ(Value(Of("paceline_job_ranks", "role", "active")), "0") << "it holds nothing";
  const double minutes = absl::ToDoubleSeconds(kEndedJobSeries);
  Refresh(9 + minutes);
  EXPECT_THAT(Text(), HasSubstr("job-1"));
  Refresh(10 + minutes);
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
  EXPECT_EQ(Value("paceline_queue_jobs{queue=\"default\",state=\"succeeded\"}"), "1");
}

TEST_F(ControllerMetricsTest, OfManyEndedJobsTheNewestHaveSeries) {
  Join({"a", "b"});
  JobRequest request = PlayedRequest();
  request.ranks = 1;
  double now = 1;
  const auto run = [&](int number) {
    request.id = JobId(absl::StrCat("job-", number));
    Apply(JobSubmitted{request}, now += 0.1);
    const Job& begun = cluster_.jobs().at(request.id);
    TrainerReport report = PlayedReport(begun, 0, TrainerState::kExited);
    report.exit = TrainerExit();
    Apply(NodeReported{begun.ranks[0].slot.node, {report}}, now += 0.1);
  };
  const auto shown = [&](int number) {
    return !Value(absl::StrCat("paceline_job_attempt{job_id=\"job-", number, "\"}")).empty();
  };
  const int most = static_cast<int>(kEndedJobsShown);
  for (int number = 1; number <= most; ++number) run(number);
  EXPECT_TRUE(shown(1));
  // The oldest is resumed, and so has no longer ended.
  request.id = JobId("job-1");
  Apply(ResumeRequested{request, ""}, now);
  run(most + 1);
  EXPECT_TRUE(shown(1));
  EXPECT_TRUE(shown(2));
  run(most + 2);
  EXPECT_FALSE(shown(2));
  EXPECT_TRUE(shown(3));
  EXPECT_TRUE(shown(most + 2));
  Refresh(now);
  EXPECT_THAT(Text(), Not(HasSubstr("\"job-2\"")));
}

TEST_F(ControllerMetricsTest, DeletedJobsSeriesDisappearAtOnce) {
  Cluster::Options options;
  options.ended_jobs_kept = 0;
  Cluster cluster(options);
  const auto apply = [&](const Event& event, double at) {
    metrics_.ShowChanges(cluster, cluster.Step(event, At(at)), At(at));
  };
  apply(NodeConnected{Facts("a"), {}}, 0);
  JobRequest request = PlayedRequest();
  request.ranks = 1;
  apply(JobSubmitted{request}, 1);
  EXPECT_THAT(Text(), HasSubstr("job-1"));
  TrainerReport report = PlayedReport(cluster.jobs().begin()->second, 0, TrainerState::kExited);
  report.exit = TrainerExit();
  apply(NodeReported{NodeName("a"), {report}}, 2);
  ASSERT_TRUE(cluster.jobs().empty());
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
  EXPECT_EQ(Value("paceline_queue_jobs{queue=\"default\",state=\"succeeded\"}"), "0");
}

TEST_F(ControllerMetricsTest, RestartsAndFailuresHaveTheirKind) {
  Join({"a", "b"});
  JobRequest request = PlayedRequest();
  request.checkpoints.directory.clear();
  request.max_restarts = 1;
  Train(1, request);
  for (const double at : {10, 20}) {
    TrainerReport failed = PlayedReport(job(), 1, TrainerState::kExited);
    failed.exit = TrainerExit();
    failed.exit->failure = FailureKind::kOutOfMemory;
    Apply(NodeReported{job().ranks[1].slot.node, {failed}}, at);
    TrainerReport stopped = PlayedReport(job(), 0, TrainerState::kExited);
    stopped.exit = TrainerExit();
    Apply(NodeReported{job().ranks[0].slot.node, {stopped}}, at + 1);
    if (at == 20) break;
    Tell(TrainerState::kRunning, at + 4);
    Refresh(at + 5);
  }
  EXPECT_EQ(Value("paceline_job_restarts_total{failure=\"out_of_memory\",queue=\"default\"}"), "1");
  EXPECT_EQ(Value("paceline_jobs_finished_total{failure=\"out_of_memory\",queue=\"default\","
                  "state=\"failed\"}"),
            "1");
  EXPECT_EQ(Value(Of("paceline_job_attempt")), "2");
  EXPECT_EQ(Value(Of("paceline_job_time_seconds_total", "category", "recovery")), "5");
}

TEST_F(ControllerMetricsTest, WhatWasBeforeTheStartIsNotCountedAgain) {
  Join({"a", "b"});
  Train(1);
  Tell(TrainerState::kRunning, 5, 40);
  ControllerMetrics next("1.0");
  next.ShowCluster(cluster_, At(10));
  Refresh(next, 11);
  const std::string text = next.Text(0);
  EXPECT_THAT(text, HasSubstr("paceline_queue_jobs{queue=\"default\",state=\"running\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(Of("paceline_job_step") + " 40\n"));
  EXPECT_THAT(text, HasSubstr(Of("paceline_job_steps_executed_total") + " 0\n"));
  EXPECT_THAT(text, HasSubstr("paceline_job_queue_wait_seconds_count{queue=\"default\"} 0\n"));
}

}  // namespace
}  // namespace paceline
