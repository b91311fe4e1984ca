#include "controller/wire/convert_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/job_spec/job_spec.h"
#include "controller/wire/convert_membership.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

v1::JobSpec Command() {
  v1::JobSpec spec;
  spec.set_name("own");
  spec.add_command("train.sh");
  spec.set_working_directory("/");
  return spec;
}

JobRequest RequestOf(v1::JobSpec spec) {
  FillDefaults(&spec);
  return FromProto(JobId("job-1"), spec);
}

TEST(ConvertPlanTest, ASessionIsACommandWithAnEngine) {
  v1::JobSpec spec = Command();
  EXPECT_FALSE(HasEngine(RequestOf(spec)));
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kSessionsLabel))));
  spec.set_session(true);
  spec.set_steps(7);
  spec.set_stop_grace_s(3);
  spec.mutable_recovery()->set_max_failures(2);
  const JobRequest request = RequestOf(spec);
  EXPECT_TRUE(HasEngine(request));
  ASSERT_TRUE(request.command.has_value());
  EXPECT_FALSE(request.command->watched);
  EXPECT_EQ(StopGraceOf(request), absl::Seconds(3));
  EXPECT_THAT(request.placement.labels, Contains(Pair(kCommandsLabel, kTakesCommands)));
  EXPECT_THAT(request.placement.labels, Contains(Pair(kSessionsLabel, kTakesSessions)));
  EXPECT_EQ(request.steps, 7);
  EXPECT_EQ(request.recovery.max_failures, 2);
  EXPECT_EQ(request.recovery.least_samples, 1);
}

TEST(ConvertPlanTest, ACompiledModelIsForNodesThatTakeCommands) {
  v1::JobSpec spec;
  spec.set_name("own");
  spec.set_ranks(2);
  spec.set_batch_per_rank(8);
  spec.mutable_recovery()->set_max_failures(1);
  spec.mutable_model()->mutable_torchscript()->set_file("/m.pt");
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kCompiledLabel))));
  spec.mutable_model()->mutable_compiled()->set_file("/m.pt2");
  const JobRequest request = RequestOf(spec);
  EXPECT_FALSE(request.command.has_value());
  EXPECT_TRUE(HasEngine(request));
  EXPECT_THAT(request.placement.labels, Contains(Pair(kCompiledLabel, kTakesCompiled)));
  EXPECT_GE(request.recovery.least_samples, 8) << "no other batch can be trained with";
}

TEST(ConvertPlanTest, OnlyReplicasOfSeveralRanksAreNamed) {
  v1::JobSpec spec = Command();
  spec.set_session(true);
  spec.set_ranks(6);
  EXPECT_EQ(RequestOf(spec).shards, 1);
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kShardsLabel))));
  spec.set_shards(3);
  EXPECT_EQ(RequestOf(spec).shards, 3);
  EXPECT_THAT(RequestOf(spec).placement.labels, Contains(Pair(kShardsLabel, kTakesShards)));
  spec.set_shards(4);
  EXPECT_EQ(RequestOf(spec).shards, 1) << "6 ranks make no replicas of 4";
  Membership membership;
  EXPECT_EQ(ToProto(membership).shards(), 0);
  membership.shards = 3;
  EXPECT_EQ(ToProto(membership).shards(), 3);
}

TEST(ConvertPlanTest, LevelsSayWhetherTheyHaveAnOuterStep) {
  v1::Strategy strategy;
  strategy.mutable_local_sgd()->set_period(500);
  EXPECT_FALSE(FromProto(strategy).ladder.front().outer);
  strategy.mutable_local_sgd()->mutable_outer()->set_kind(v1::OUTER_NESTEROV);
  EXPECT_TRUE(FromProto(strategy).ladder.front().outer);
  strategy.mutable_hsgd()->add_ladder()->set_size(2);
  strategy.mutable_hsgd()->add_ladder()->mutable_outer()->set_kind(v1::OUTER_SLOWMO);
  EXPECT_FALSE(FromProto(strategy).ladder[0].outer);
  EXPECT_TRUE(FromProto(strategy).ladder[1].outer);
  v1::JobSpec spec = Command();
  spec.set_session(true);
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kOuterLabel))));
  *spec.mutable_strategy() = strategy;
  EXPECT_THAT(RequestOf(spec).placement.labels, Contains(Pair(kOuterLabel, kTakesOuter)));
}

TEST(ConvertPlanTest, TheOptimizerOfASessionMayKeepSecondMoments) {
  v1::JobSpec spec = Command();
  spec.set_session(true);
  spec.set_steps(7);
  EXPECT_FALSE(RequestOf(spec).strategy.is_adaptive);
  spec.mutable_strategy()->mutable_auto_();
  EXPECT_TRUE(RequestOf(spec).strategy.is_adaptive);
}

TEST(ConvertPlanTest, ReplicasNeedNotShareADomainUnlessThatIsRequired) {
  v1::JobSpec spec = Command();
  EXPECT_EQ(FromProto(JobId("job-1"), spec).placement.replica, ReplicaPlacement::kPrefer)
      << "as in a version without replicas";
  EXPECT_EQ(RequestOf(spec).placement.replica, ReplicaPlacement::kPrefer);
  spec.mutable_placement()->set_replica(v1::REPLICA_PLACEMENT_REQUIRE);
  EXPECT_EQ(RequestOf(spec).placement.replica, ReplicaPlacement::kRequire);
}

}  // namespace
}  // namespace paceline
