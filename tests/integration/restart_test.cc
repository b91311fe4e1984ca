// Daemons die and come back while a job trains: the job does not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

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

}  // namespace
}  // namespace paceline
