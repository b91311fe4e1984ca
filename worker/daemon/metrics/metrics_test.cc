#include "worker/daemon/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/metrics/testing/metric_lint.h"
#include "worker/daemon/metrics/metric_families.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const TrainerId kId{JobId("job-1"), Generation(2), Rank(3)};

TEST(WorkerMetricsTest, TableIsRightAndAllOfItIsRegistered) {
  EXPECT_THAT(LintMetrics(WorkerFamilies()), IsEmpty());
  EXPECT_THAT(WorkerMetrics("1.0").registry().Unregistered(), IsEmpty());
}

TEST(WorkerMetricsTest, ShowsTheNode) {
  WorkerMetrics metrics("1.0");
  metrics.SetConnected(true, 2);
  metrics.SetTrainers({{v1::TRAINER_RUNNING, 4}});
  metrics.AddStarted();
  metrics.AddEnded(v1::FAILURE_OUT_OF_MEMORY);
  metrics.AddDropped(7);
  metrics.AddRefused("user");
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("paceline_build_info{component=\"worker\",version=\"1.0\"} 1"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_controller_connected 1"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_reconnects_total 2"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_trainers{state=\"running\"} 4"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_trainers{state=\"exited\"} 0"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_trainers_ended_total{failure=\"out_of_memory\"} 1"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_trainers_ended_total{failure=\"restore\"} 0"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_trainers_started_total 1"));
  EXPECT_THAT(text,
              HasSubstr("paceline_worker_trainer_connections_refused_total{cause=\"user\"} 1"));
  EXPECT_THAT(text,
              HasSubstr("paceline_worker_trainer_connections_refused_total{cause=\"process\"} 0"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_telemetry_dropped_total 7"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes"));
}

TEST(WorkerMetricsTest, ShowsTheCertificateEndThatWasReadLast) {
  WorkerMetrics metrics("1.0");
  metrics.ShowCertificateEnd(std::nullopt);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("\npaceline_certificate_expiry")));
  metrics.ShowCertificateEnd(absl::FromUnixSeconds(86400));
  metrics.ShowCertificateEnd(std::nullopt);
  EXPECT_THAT(metrics.Text(), HasSubstr("\npaceline_certificate_expiry_timestamp_seconds 86400\n"));
}

TEST(WorkerMetricsTest, ShowsATrainerUntilItIsForgotten) {
  WorkerMetrics metrics("1.0");
  v1::Progress progress;
  progress.set_step(12);
  std::array<uint64_t, kPhases> phases{};
  phases[static_cast<int>(Phase::kForward)] = 1'500'000'000;
  metrics.SetTrainer(kId, progress, phases);
  metrics.SetTrainer(kId, progress, phases);
  v1::CheckpointFigures checkpoints;
  checkpoints.set_saves(4);
  metrics.SetCheckpoints(kId, checkpoints);
  const std::string text = metrics.Text();
  EXPECT_THAT(text,
              HasSubstr("paceline_trainer_step{generation=\"2\",job_id=\"job-1\",rank=\"3\"} 12"));
  EXPECT_THAT(text, HasSubstr("phase=\"forward\",rank=\"3\"} 1.5"));
  EXPECT_THAT(text, HasSubstr("paceline_trainer_checkpoint_saves_total{"));
  EXPECT_THAT(text, Not(HasSubstr("paceline_trainer_loss{"))) << "it has reported no step";
  EXPECT_THAT(text, Not(HasSubstr("paceline_trainer_step_seconds{")));
  progress.set_step_s(0.125);
  metrics.SetTrainer(kId, progress, phases);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("paceline_trainer_loss{"))) << "a watched script";
  progress.set_loss(0.25);
  metrics.SetTrainer(kId, progress, phases);
  const std::string later = metrics.Text();
  const std::string labels = "{generation=\"2\",job_id=\"job-1\",rank=\"3\"} ";
  EXPECT_THAT(later, HasSubstr("paceline_trainer_loss" + labels + "0.25"));
  EXPECT_THAT(later, HasSubstr("paceline_trainer_step_seconds" + labels + "0.125"));
  progress.set_phase(v1::EVALUATING);
  progress.set_evaluated_batches(100);
  progress.set_evaluation_batches(400);
  metrics.SetTrainer(kId, progress, phases);
  EXPECT_THAT(metrics.Text(), HasSubstr("paceline_trainer_evaluated_ratio" + labels + "0.25"));
  progress.set_phase(v1::FORWARD);
  metrics.SetTrainer(kId, progress, phases);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("paceline_trainer_evaluated_ratio{")));
  progress.set_phase(v1::EVALUATING);
  metrics.SetTrainer(kId, progress, phases);
  metrics.ForgetTrainer(kId);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("job-1")));
}

}  // namespace
}  // namespace paceline
