// Daemons die and come back while a job trains: the job does not notice. Ranks die: the job starts
// again from its newest checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>
#include <vector>

#include "tests/integration/checkpoint_job.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<int64_t> Pids(const v1::Job& job) {
  std::vector<int64_t> pids;
  for (const v1::Rank& rank : job.ranks()) pids.push_back(rank.pid());
  return pids;
}

void ExpectEveryStepOnce(TestCluster& cluster, const std::string& id, int64_t steps) {
  const std::string log = cluster.Log(id, 0);
  for (int64_t step = 1; step <= steps; ++step) {
    const std::string line = " I step=" + std::to_string(step) + " ";
    const size_t found = log.find(line);
    ASSERT_NE(found, std::string::npos) << line;
    EXPECT_EQ(log.find(line, found + 1), std::string::npos) << line << " twice";
  }
}

TEST(RestartTest, ControllerKilledInTheMiddleOfAJob) {
  constexpr int64_t kSteps = 200;
  TestCluster cluster;
  const std::string id = cluster.Submit(cluster.LongJob(4, kSteps)).id();
  const v1::Job before = cluster.WaitForSteps(id, 5);
  cluster.KillController();
  cluster.StartController();
  const v1::Job after = cluster.WaitForSteps(id, before.progress().step() + 5);
  EXPECT_EQ(Pids(after), Pids(before));
  cluster.Release();
  const v1::Job ended = cluster.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.DebugString();
  EXPECT_EQ(Pids(ended), Pids(before));
  EXPECT_EQ(ended.progress().step(), kSteps);
  ExpectEveryStepOnce(cluster, id, kSteps);
}

TEST(RestartTest, JobThatEndsWhileTheControllerIsAwayIsKnownAfterwards) {
  TestCluster cluster;
  const std::string id = cluster.Submit(cluster.LongJob(4, 50)).id();
  const v1::Job before = cluster.WaitForSteps(id, 2);
  cluster.KillController();
  cluster.Release();
  for (const int64_t pid : Pids(before)) {
    ASSERT_TRUE(Eventually([pid] { return kill(pid, 0) != 0; }));
  }
  cluster.StartController();
  const v1::Job ended = cluster.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.DebugString();
  EXPECT_EQ(ended.progress().step(), 50);
  EXPECT_EQ(ended.evaluation().step(), 50);
}

TEST(RestartTest, WorkerKilledInTheMiddleOfAJobAdoptsItsTrainers) {
  constexpr int64_t kSteps = 200;
  TestCluster cluster;
  const std::string id = cluster.Submit(cluster.LongJob(4, kSteps)).id();
  const v1::Job before = cluster.WaitForSteps(id, 5);
  cluster.KillWorker(1);
  cluster.StartWorker(1);
  const v1::Job after = cluster.WaitForSteps(id, before.progress().step() + 5);
  EXPECT_EQ(Pids(after), Pids(before));
  cluster.Release();
  const v1::Job ended = cluster.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.DebugString();
  EXPECT_EQ(Pids(ended), Pids(before));
  ExpectEveryStepOnce(cluster, id, kSteps);
}

TEST(RestartTest, TrainerThatDiesWhileItsWorkerIsAwayIsStillExplained) {
  TestCluster cluster;
  const std::string id = cluster.Submit(cluster.LongJob(4)).id();
  const v1::Job before = cluster.WaitForSteps(id, 3);
  cluster.KillWorker(1);
  kill(before.ranks(3).pid(), SIGILL);  // One that sanitizers leave alone.
  ASSERT_TRUE(Eventually([&] { return kill(before.ranks(3).pid(), 0) != 0; }));
  cluster.StartWorker(1);
  const v1::Job ended = cluster.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::FAILED);
  EXPECT_EQ(ended.failure().rank(), 3) << ended.DebugString();
  EXPECT_EQ(ended.failure().exit().signal(), SIGILL);
}

TEST(RestartTest, ControllerAndWorkersKilledTogether) {
  TestCluster cluster;
  const std::string id = cluster.Submit(cluster.LongJob(4, 200)).id();
  const v1::Job before = cluster.WaitForSteps(id, 3);
  cluster.KillController();
  cluster.KillWorker(0);
  cluster.KillWorker(1);
  cluster.StartWorker(0);
  cluster.StartController();
  cluster.StartWorker(1);
  cluster.Release();
  const v1::Job ended = cluster.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.DebugString();
  EXPECT_EQ(Pids(ended), Pids(before));
}

using RestartedJobTest = CheckpointJobTest;

TEST_F(RestartedJobTest, AKilledJobGoesOnAsIfNothingHadHappened) {
  v1::JobSpec spec = Job(4, 100);
  spec.mutable_checkpoint()->set_every_steps(20);
  spec.set_max_restarts(2);
  const std::string whole = cluster_.Submit(spec).id();
  EXPECT_EQ(cluster_.WaitForEnd(whole).state(), v1::SUCCEEDED);

  const std::string id = cluster_.Submit(spec).id();
  const v1::Job running = WaitForCheckpoint(id, 40);
  ASSERT_EQ(kill(static_cast<pid_t>(running.ranks(1).pid()), SIGKILL), 0);
  const v1::Job again =
      cluster_.WaitUntil(id, [](const v1::Job& job) { return job.generation() == 2; });
  EXPECT_EQ(again.restarts(), 1);
  EXPECT_THAT(again.restored_from(), HasSubstr("/step-0000000000"));
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_THAT(ended.restart_reason(), AllOf(HasSubstr("rank 1"), HasSubstr("signal 9")));
  for (const int rank : {0, 3}) {
    const std::map<int64_t, std::string> expected = Losses(whole, rank);
    const std::map<int64_t, std::string> resumed = Losses(id, rank);
    ASSERT_FALSE(resumed.empty());
    EXPECT_GE(resumed.begin()->first, 41) << "it begins behind the checkpoint";
    EXPECT_EQ(resumed.rbegin()->first, 100);
    for (const auto& [step, losses] : resumed) EXPECT_EQ(losses, expected.at(step)) << step;
  }
}

TEST_F(RestartedJobTest, WithoutACheckpointARestartBeginsAnew) {
  v1::JobSpec spec = Job(2, 30);
  spec.set_max_restarts(1);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_rank(1);
  fault->set_step(5);
  fault->set_kind(v1::ABORT);
  fault->set_generation(1);
  const std::string id = cluster_.Submit(spec).id();
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_EQ(ended.generation(), 2);
  EXPECT_EQ(ended.restored_from(), "");
  EXPECT_EQ(Losses(id, 0).size(), 30u);
}

TEST_F(RestartedJobTest, RestartsAreCounted) {
  v1::JobSpec spec = Job(2, 30);
  spec.set_max_restarts(2);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_rank(1);
  fault->set_step(5);
  fault->set_kind(v1::ABORT);
  const std::string id = cluster_.Submit(spec).id();
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::FAILED);
  EXPECT_EQ(ended.generation(), 3);
  EXPECT_EQ(ended.restarts(), 2);
}

}  // namespace
}  // namespace paceline
