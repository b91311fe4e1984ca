// A job that leaves its strategy to the controller: real ranks that stall at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

void AddSleep(double seconds, double probability, v1::JobSpec* spec) {
  v1::Fault* sleep = spec->add_chaos();
  sleep->set_rank(-1);
  sleep->set_kind(v1::SLEEP);
  sleep->set_seconds(seconds);
  sleep->set_steps(spec->steps());
  sleep->set_probability(probability);
}

// The first change of strategy. On a busy machine outer steps may be advised before it.
v1::RemedyDecision StrategyDecision(TestCluster& cluster, const std::string& id) {
  grpc::ClientContext context;
  v1::ListDecisionsRequest request;
  request.set_job(id);
  v1::ListDecisionsResponse decisions;
  const grpc::Status status =
      v1::JobService::NewStub(cluster.channel())->ListDecisions(&context, request, &decisions);
  EXPECT_TRUE(status.ok()) << status.error_message();
  for (const v1::RemedyDecision& decision : decisions.decisions()) {
    if (decision.kind() == v1::REMEDY_STRATEGY) return decision;
  }
  return v1::RemedyDecision();
}

// Each step takes 10 ms, and one in fifty steps of each rank 400 ms more.
TEST(AutoTest, RanksThatStallGoOnWithSlipstreamWhileTheyTrain) {
  TestCluster cluster;
  v1::JobSpec spec = cluster.SmallJob(4, 2500);
  spec.mutable_strategy()->mutable_auto_();
  spec.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  spec.mutable_optimizer()->set_learning_rate(0.01);
  spec.set_log_every(50);
  spec.set_allow_chaos(true);
  AddSleep(0.01, 1, &spec);
  AddSleep(0.4, 0.02, &spec);
  const std::string id = cluster.Submit(spec).id();
  const v1::Job before = cluster.WaitForSteps(id, 150);
  EXPECT_TRUE(before.plan().strategy().has_auto_()) << "it begins as ddp";
  cluster.WaitForSteps(id, 400);
  const v1::Job changed = cluster.WaitUntil(id, [](const v1::Job& job) {
    return job.plan().strategy().has_slipstream() &&
           job.plan().active_version() == job.plan().version() && job.state() == v1::RUNNING;
  });
  EXPECT_EQ(changed.plan().strategy().slipstream().mode(), v1::SLIPSTREAM_FREE);
  EXPECT_EQ(changed.generation(), before.generation() + 1);
  ASSERT_EQ(changed.membership_changes_size(), 1);
  EXPECT_TRUE(changed.membership_changes(0).planned());
  cluster.WaitUntil(id, [&](const v1::Job& job) {
    return job.progress().step() > changed.progress().step() + 400 || HasEnded(job);
  });
  const v1::Job done = cluster.WaitForEnd(id);
  EXPECT_EQ(done.state(), v1::SUCCEEDED) << done.reason();
  EXPECT_EQ(done.progress().step(), 2500);
  EXPECT_GT(done.evaluation().accuracy(), 0.9);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(done.ranks(rank).pid(), before.ranks(rank).pid()) << "the processes stay";
    EXPECT_THAT(cluster.Log(id, rank), HasSubstr("from=ddp to=slipstream"));
  }
  const v1::RemedyDecision decision = StrategyDecision(cluster, id);
  EXPECT_EQ(decision.kind(), v1::REMEDY_STRATEGY);
  EXPECT_TRUE(decision.automatic());
  EXPECT_EQ(decision.summary(), "strategy slipstream free");
  EXPECT_LT(decision.predicted_s(), decision.before_s());
  EXPECT_EQ(decision.strategy_plan().slipstream_size(), 4);
  std::cerr << "before " << decision.before_s() << " s, predicted " << decision.predicted_s()
            << " s, measured " << decision.measured_s() << " s, " << decision.outcome() << "\n";
}

}  // namespace
}  // namespace paceline
