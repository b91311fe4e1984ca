// A job from submission to its end, through real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

TEST(JobTest, TrainsOnAllNodesToAGoodAccuracy) {
  TestCluster cluster(/*workers=*/2, /*slots=*/2);
  v1::JobSpec spec = cluster.SmallJob(/*ranks=*/4, /*steps=*/60);
  spec.mutable_checkpoint()->set_directory(cluster.directory() + "/weights");
  const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString();
  EXPECT_EQ(job.progress().step(), 60);
  EXPECT_GT(job.progress().samples_per_s(), 0);
  EXPECT_EQ(job.evaluation().step(), 60);
  EXPECT_EQ(job.evaluation().samples(), 64);
  EXPECT_GE(job.evaluation().accuracy(), 0.95);
  EXPECT_EQ(job.ranks(0).node(), "w0");
  EXPECT_EQ(job.ranks(3).node(), "w1");
  EXPECT_TRUE(std::filesystem::exists(
      absl::StrCat(cluster.directory(), "/weights/", job.id(), "/final.safetensors")));

  // The log outlives the trainers.
  const std::string log = cluster.Log(job.id(), 3);
  EXPECT_THAT(log, HasSubstr("step=1 "));
  EXPECT_THAT(log, HasSubstr("step=60 "));
}

TEST(JobTest, MetricsShowWhatIsRunning) {
  TestCluster cluster(/*workers=*/1, /*slots=*/2);
  const v1::Job job = cluster.Submit(cluster.LongJob(2));
  cluster.WaitForSteps(job.id(), 2);
  EXPECT_TRUE(Eventually([&] {
    const std::string worker = cluster.HttpGet("w0/address", "/metrics");
    return worker.find("paceline_trainer_") != std::string::npos &&
           worker.find("paceline_worker_controller_connected 1") != std::string::npos;
  })) << cluster.HttpGet("w0/address", "/metrics");
  EXPECT_TRUE(Eventually([&] {
    const std::string controller = cluster.HttpGet("controller.address", "/metrics");
    const std::string running = "paceline_queue_jobs{queue=\"default\",state=\"running\"} 1";
    return controller.find(running) != std::string::npos &&
           controller.find("paceline_job_phase_seconds_total") != std::string::npos;
  }));
  EXPECT_THAT(cluster.HttpGet("controller.address", "/sd"), HasSubstr("\"node\":\"w0\""));
}

TEST(JobTest, CancelEndsItGracefully) {
  TestCluster cluster(/*workers=*/2, /*slots=*/1);
  const v1::Job job = cluster.Submit(cluster.LongJob(2));
  cluster.WaitForSteps(job.id(), 2);
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job(job.id());
  request.set_request_id("cancel");
  request.set_reason("seen enough");
  v1::Job cancelled;
  ASSERT_TRUE(
      v1::JobService::NewStub(cluster.channel())->Cancel(&context, request, &cancelled).ok());
  const v1::Job ended = cluster.WaitForEnd(job.id());
  EXPECT_EQ(ended.state(), v1::CANCELLED);
  EXPECT_EQ(ended.reason(), "seen enough");
  EXPECT_FALSE(ended.has_failure());
}

TEST(JobTest, QueuedJobStartsWhenTheOneBeforeHasEnded) {
  TestCluster cluster(/*workers=*/1, /*slots=*/2);
  const v1::Job first = cluster.Submit(cluster.SmallJob(2, 20));
  const v1::Job second = cluster.Submit(cluster.SmallJob(2, 5));
  EXPECT_EQ(second.state(), v1::QUEUED);
  EXPECT_THAT(second.reason(), HasSubstr("waits for 2 slots"));
  EXPECT_EQ(cluster.WaitForEnd(second.id()).state(), v1::SUCCEEDED);
  EXPECT_EQ(cluster.Get(first.id()).state(), v1::SUCCEEDED);
}

}  // namespace
}  // namespace paceline
