// Jobs with Slipstream: real ranks, controlled and observed through the API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <string>

#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// A step takes some 5 ms.
v1::JobSpec Job(const TestCluster& cluster, int64_t steps) {
  v1::JobSpec spec = cluster.SmallJob(4, steps);
  spec.mutable_strategy()->mutable_slipstream();
  spec.mutable_optimizer()->mutable_adamw();
  spec.mutable_optimizer()->set_learning_rate(0.01);
  spec.mutable_evaluation()->set_every(100);
  spec.mutable_checkpoint()->set_directory(cluster.directory() + "/checkpoints");
  spec.set_log_every(10);
  spec.set_allow_chaos(true);
  v1::Fault* slow = spec.add_chaos();
  slow->set_rank(-1);
  slow->set_kind(v1::SLEEP);
  slow->set_seconds(0.005);
  slow->set_steps(steps);
  return spec;
}

grpc::Status ChangeMode(TestCluster& cluster, const std::string& id, v1::SlipstreamMode mode) {
  grpc::ClientContext context;
  v1::ChangeModeRequest request;
  request.set_job(id);
  request.set_request_id("mode-" + v1::SlipstreamMode_Name(mode));
  request.set_mode(mode);
  v1::Job job;
  return v1::JobService::NewStub(cluster.channel())->ChangeMode(&context, request, &job);
}

void Cancel(TestCluster& cluster, const std::string& id) {
  grpc::ClientContext context;
  v1::CancelJobRequest cancel;
  cancel.set_job(id);
  cancel.set_request_id("cancel");
  v1::Job cancelled;
  ASSERT_TRUE(
      v1::JobService::NewStub(cluster.channel())->Cancel(&context, cancel, &cancelled).ok());
  EXPECT_EQ(cluster.WaitForEnd(id).state(), v1::CANCELLED);
}

v1::Job WaitForMode(TestCluster& cluster, const std::string& id, int64_t version,
                    v1::SlipstreamMode mode) {
  return cluster.WaitUntil(id, [=](const v1::Job& job) {
    return job.plan().active_version() == version &&
           job.ranks(3).figures().slipstream().mode() == mode;
  });
}

TEST(SlipstreamTest, TrainsChangesItsModeSavesAndGoesOn) {
  TestCluster cluster;
  const std::string id = cluster.Submit(Job(cluster, 100000)).id();
  WaitForMode(cluster, id, 1, v1::SLIPSTREAM_DROP);
  const grpc::Status changed = ChangeMode(cluster, id, v1::SLIPSTREAM_FREE);
  ASSERT_TRUE(changed.ok()) << changed.error_message();
  const v1::Job free = WaitForMode(cluster, id, 2, v1::SLIPSTREAM_FREE);
  cluster.WaitForSteps(id, free.plan().active_since_step() + 100);

  // Saved at a stop, then ended.
  grpc::ClientContext context;
  v1::CancelJobRequest cancel;
  cancel.set_job(id);
  cancel.set_request_id("cancel");
  cancel.set_save(true);
  v1::Job cancelled;
  ASSERT_TRUE(
      v1::JobService::NewStub(cluster.channel())->Cancel(&context, cancel, &cancelled).ok());
  const v1::Job ended = cluster.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::CANCELLED);
  const int64_t saved = ended.checkpoints().newest_step();
  ASSERT_GT(saved, 100);
  EXPECT_GE(ended.progress().step(), saved);
  EXPECT_GE(ended.evaluation().step(), 100);

  // It continues from there, in its old plan's mode or another one.
  grpc::ClientContext resume_context;
  v1::ResumeJobRequest resume;
  resume.set_job(id);
  resume.set_request_id("resume");
  resume.set_steps(saved + 200);
  v1::Job resumed;
  const grpc::Status status =
      v1::JobService::NewStub(cluster.channel())->Resume(&resume_context, resume, &resumed);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::Job done = cluster.WaitForEnd(id);
  EXPECT_EQ(done.state(), v1::SUCCEEDED);
  EXPECT_EQ(done.ranks(3).figures().slipstream().mode(), v1::SLIPSTREAM_FREE)
      << "as it was changed";
  EXPECT_EQ(done.progress().step(), saved + 200);
  EXPECT_EQ(done.evaluation().step(), saved + 200);
  EXPECT_GT(done.evaluation().accuracy(), 0.9);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(cluster.Log(id, rank), HasSubstr("restored step=" + std::to_string(saved)));
  }
}

// One step of a rank never ends; its communication goes on. In `drop` the others soon wait for it,
// at an evaluation; in `free` nobody ever does.
TEST(SlipstreamTest, ARankWhoseStepNeverEndsIsReplacedAndNoOther) {
  for (const v1::SlipstreamMode mode : {v1::SLIPSTREAM_DROP, v1::SLIPSTREAM_FREE}) {
    SCOPED_TRACE(v1::SlipstreamMode_Name(mode));
    TestCluster cluster(/*workers=*/3);
    v1::JobSpec spec = Job(cluster, 1000000);
    spec.mutable_strategy()->mutable_slipstream()->set_mode(mode);
    spec.mutable_recovery()->set_max_failures(3);
    spec.set_stall_warning_s(4);
    spec.set_hang_timeout_s(8);
    if (mode == v1::SLIPSTREAM_FREE) spec.mutable_evaluation()->set_every(0);
    v1::Fault* endless = spec.add_chaos();
    endless->set_rank(1);
    endless->set_generation(1);
    endless->set_step(60);
    endless->set_steps(1);
    endless->set_kind(v1::SLEEP);
    endless->set_seconds(1000);
    const std::string id = cluster.Submit(spec).id();
    const v1::Job before = cluster.WaitForSteps(id, 20);
    const v1::Job after = cluster.WaitUntil(id, [&](const v1::Job& job) {
      return job.state() == v1::RUNNING && job.generation() == 2 &&
             job.progress().step() > before.progress().step() + 100;
    });
    ASSERT_EQ(after.membership_changes_size(), 1);
    EXPECT_THAT(after.membership_changes(0).reason(), HasSubstr("rank 1 on "));
    EXPECT_THAT(after.membership_changes(0).reason(), HasSubstr("hangs in forward"));
    for (const int rank : {0, 2, 3}) EXPECT_EQ(after.ranks(rank).pid(), before.ranks(rank).pid());
    EXPECT_NE(after.ranks(1).pid(), before.ranks(1).pid());
    Cancel(cluster, id);
  }
}

TEST(SlipstreamTest, ALostRankIsReplacedWhileItTrains) {
  TestCluster cluster(/*workers=*/3);
  v1::JobSpec spec = Job(cluster, 100000);
  spec.mutable_recovery()->set_max_failures(3);
  const std::string id = cluster.Submit(spec).id();
  const v1::Job before = cluster.WaitForSteps(id, 50);
  ASSERT_GT(before.ranks(1).pid(), 0);
  ASSERT_EQ(kill(static_cast<pid_t>(before.ranks(1).pid()), SIGKILL), 0);
  const v1::Job after = cluster.WaitUntil(id, [&](const v1::Job& job) {
    return job.state() == v1::RUNNING && job.generation() == 2 &&
           job.progress().step() > before.progress().step() + 100;
  });
  EXPECT_EQ(after.ranks(0).pid(), before.ranks(0).pid()) << "the others keep their processes";
  Cancel(cluster, id);
}

}  // namespace
}  // namespace paceline
