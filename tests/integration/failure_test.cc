// A rank fails in every possible way: the job ends within two seconds, says which rank failed,
// where and how, and leaves nothing behind (see ~TestCluster).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr int kFailingRank = 3;
constexpr int kFailingStep = 5;

struct Failure {
  const char* name;
  v1::FaultKind fault;
  v1::FailureKind kind;
  int exit_code;
  int signal;
  const char* message;
};

class InjectedFailureTest : public ::testing::TestWithParam<Failure> {};

// Seconds from the rank's failure to the end of the job, as the controller saw them.
double SecondsToEnd(TestCluster& cluster, const std::string& id) {
  absl::Time failed = absl::InfiniteFuture();
  cluster.WaitUntil(id, [&](const v1::Job& job) {
    if (job.has_failure() && failed == absl::InfiniteFuture()) failed = absl::Now();
    return HasEnded(job);
  });
  return absl::ToDoubleSeconds(absl::Now() - failed);
}

TEST_P(InjectedFailureTest, JobFailsWithRankNodePhaseStepAndLog) {
  TestCluster cluster(/*workers=*/2, /*slots=*/2);
  v1::JobSpec spec = cluster.SmallJob(4, 100000);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_rank(kFailingRank);
  fault->set_step(kFailingStep);
  fault->set_kind(GetParam().fault);
  const std::string id = cluster.Submit(spec).id();
  EXPECT_LT(SecondsToEnd(cluster, id), 2.0);

  const v1::Job job = cluster.Get(id);
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().rank(), kFailingRank) << job.DebugString();
  EXPECT_EQ(job.failure().node(), "w1");
  const v1::TrainerExit& exit = job.failure().exit();
  EXPECT_EQ(exit.failure(), GetParam().kind) << job.DebugString();
  EXPECT_EQ(exit.exit_code(), GetParam().exit_code);
  EXPECT_EQ(exit.signal(), GetParam().signal);
  EXPECT_EQ(exit.step(), kFailingStep);
  EXPECT_THAT(exit.message(), HasSubstr(GetParam().message));
  EXPECT_THAT(exit.log_tail(), HasSubstr("step=5 "));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, InjectedFailureTest,
    ::testing::Values(Failure{"Throws", v1::THROW, v1::FAILURE_ERROR, 1, 0, "injected"},
                      Failure{"Aborts", v1::ABORT, v1::FAILURE_SIGNAL, 0, SIGABRT, "SIGABRT"},
                      Failure{"Exits", v1::EXIT, v1::FAILURE_EXIT_CODE, 42, 0, "42"},
                      Failure{"RunsOutOfMemory", v1::OUT_OF_MEMORY, v1::FAILURE_OUT_OF_MEMORY, 1, 0,
                              "memory"}),
    [](const auto& info) { return info.param.name; });

TEST(FailureTest, KilledTrainerIsNamedWithSignalPhaseAndStep) {
  TestCluster cluster(/*workers=*/2, /*slots=*/2);
  v1::JobSpec spec = cluster.SmallJob(4, 100000);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_step(kFailingStep);
  fault->set_kind(v1::SLEEP);
  fault->set_seconds(600);
  const std::string id = cluster.Submit(spec).id();
  // Rank 0 sleeps, the others wait for it.
  const v1::Job stuck = cluster.WaitUntil(id, [](const v1::Job& job) {
    if (job.ranks_size() < 4) return false;
    const v1::Progress& progress = job.ranks(2).progress();
    return progress.step() == kFailingStep && progress.phase() == v1::COMMUNICATION &&
           progress.phase_s() > 0.3;
  });
  kill(stuck.ranks(2).pid(), SIGKILL);
  const absl::Time killed = absl::Now();
  const v1::Job job = cluster.WaitForEnd(id);
  EXPECT_LT(absl::Now() - killed, absl::Seconds(2));
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().rank(), 2) << job.DebugString();
  EXPECT_EQ(job.failure().node(), "w1");
  EXPECT_EQ(job.failure().exit().failure(), v1::FAILURE_SIGNAL);
  EXPECT_EQ(job.failure().exit().signal(), SIGKILL);
  EXPECT_EQ(job.failure().exit().step(), kFailingStep);
  EXPECT_EQ(job.failure().exit().phase(), v1::COMMUNICATION) << job.DebugString();
  EXPECT_GT(job.failure().exit().phase_s(), 0.3);
}

TEST(FailureTest, RankThatHangsIsNamedNotThoseThatWaitedForIt) {
  TestCluster cluster(/*workers=*/2, /*slots=*/1);
  v1::JobSpec spec = cluster.SmallJob(2, 100000);
  spec.set_collective_timeout_s(2);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_rank(1);
  fault->set_step(kFailingStep);
  fault->set_kind(v1::SLEEP);
  fault->set_seconds(600);
  const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().rank(), 1) << job.DebugString();
  EXPECT_EQ(job.failure().exit().phase(), v1::FORWARD);
  EXPECT_THAT(job.reason(), HasSubstr("in forward of step 5"));
}

TEST(FailureTest, NodeThatIsGoneIsNamedNotThoseThatLostIt) {
  TestCluster cluster(/*workers=*/2, /*slots=*/2);
  const std::string id = cluster.Submit(cluster.LongJob(4)).id();
  const v1::Job running = cluster.WaitForSteps(id, 2);
  cluster.KillWorker(1);
  for (const int rank : {2, 3}) kill(running.ranks(rank).pid(), SIGKILL);
  const v1::Job job = cluster.WaitForEnd(id);
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().node(), "w1") << job.DebugString();
  EXPECT_EQ(job.failure().exit().failure(), v1::FAILURE_LOST);
  for (const v1::Rank& rank : job.ranks()) EXPECT_EQ(rank.state(), v1::TRAINER_EXITED);
}

TEST(FailureTest, MissingDataIsTheUsersToMend) {
  TestCluster cluster(/*workers=*/1, /*slots=*/1);
  v1::JobSpec spec = cluster.SmallJob(1, 10);
  spec.mutable_data()->set_train("/nowhere/train.shard");
  const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().exit().failure(), v1::FAILURE_INPUT);
  EXPECT_THAT(job.reason(), HasSubstr("/nowhere/train.shard"));
}

TEST(FailureTest, CudaWithoutAGpuIsRefusedAtOnce) {
  TestCluster cluster(/*workers=*/1, /*slots=*/1);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = cluster.SmallJob(1, 10);
  request.mutable_spec()->set_device(v1::CUDA);
  request.set_request_id("cuda");
  grpc::ClientContext context;
  v1::Job job;
  const grpc::Status status =
      v1::JobService::NewStub(cluster.channel())->Submit(&context, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("needs 1 GPU and no node has one"));
}

}  // namespace
}  // namespace paceline
