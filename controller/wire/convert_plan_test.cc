#include "controller/wire/convert_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

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
  EXPECT_FALSE(ToProto(membership).averages_first());
  membership.averages_first = true;
  EXPECT_TRUE(ToProto(membership).averages_first());
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

TEST(ConvertPlanTest, WeightsInBfloat16GoOnlyWhereTrainersKnowThem) {
  v1::JobSpec spec;
  spec.set_precision(v1::BF16);
  EXPECT_THAT(FromProto(JobId("job-1"), spec).placement.labels, Not(Contains(Key(kBf16FullLabel))));
  spec.set_precision(v1::BF16_FULL);
  EXPECT_THAT(FromProto(JobId("job-1"), spec).placement.labels,
              Contains(Pair(kBf16FullLabel, kTakesBf16Full)));
}

TEST(ConvertPlanTest, DataOfSeveralFilesIsForWorkersThatKnowIt) {
  v1::JobSpec spec;
  spec.mutable_data()->set_train("/a");
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kDataListsLabel))));
  spec.mutable_data()->clear_train();
  spec.mutable_data()->add_sources()->set_path("/a");
  EXPECT_THAT(RequestOf(spec).placement.labels, Contains(Pair(kDataListsLabel, kTakesDataLists)));
}

TEST(ConvertPlanTest, ObjectsAreForNodesThatReadSome) {
  v1::JobSpec spec;
  spec.mutable_data()->set_train("/a");
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kObjectsLabel))));
  spec.mutable_data()->set_eval("s3://b/k");
  EXPECT_THAT(RequestOf(spec).placement.labels, Contains(Pair(kObjectsLabel, kTakesObjects)));
  spec.mutable_data()->clear_eval();
  spec.mutable_data()->add_sources()->set_path("gs://b/k");
  EXPECT_THAT(RequestOf(spec).placement.labels, Contains(Pair(kObjectsLabel, kTakesObjects)));
}

// A rank whose trainer does not know of it would step by another rate than the others.
TEST(ConvertPlanTest, RateThatFollowsTheRanksNeedsTrainersThatKnowIt) {
  v1::JobSpec spec;
  spec.set_ranks(2);
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kRankScaleLabel))));
  spec.mutable_schedule()->set_scale_with_ranks(v1::RANK_SCALE_NONE);
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kRankScaleLabel))));
  spec.mutable_schedule()->set_scale_with_ranks(v1::RANK_SCALE_SQRT);
  EXPECT_THAT(RequestOf(spec).placement.labels, Contains(Pair(kRankScaleLabel, kTakesRankScale)));
}

TEST(ConvertPlanTest, NewFormatsNeedTrainersThatKnowThem) {
  const auto needs_label = [](const std::function<void(v1::JobSpec*)>& change) {
    v1::JobSpec spec = Command();
    spec.set_session(true);
    spec.mutable_strategy()->mutable_hsgd()->add_ladder()->set_size(2);
    change(&spec);
    return RequestOf(spec).placement.labels.count(kFormatsLabel) == 1;
  };
  const auto level_as = [&](v1::WireFormat format) {
    return needs_label([format](v1::JobSpec* spec) {
      spec->mutable_strategy()->mutable_hsgd()->mutable_ladder(0)->set_format(format);
    });
  };
  EXPECT_FALSE(level_as(v1::WIRE_FORMAT_UNSPECIFIED));
  EXPECT_FALSE(level_as(v1::WIRE_FORMAT_FP32));
  EXPECT_TRUE(level_as(v1::WIRE_FORMAT_INT8)) << "in the first level";
  EXPECT_FALSE(needs_label([](v1::JobSpec* spec) {
    spec->mutable_strategy()->mutable_hsgd()->add_ladder()->set_format(v1::WIRE_FORMAT_INT8);
  }));
  EXPECT_FALSE(needs_label([](v1::JobSpec* spec) {
    spec->mutable_strategy()->mutable_local_sgd()->set_format(v1::WIRE_FORMAT_INT8);
  }));
  EXPECT_TRUE(level_as(v1::WIRE_FORMAT_FP16));
  EXPECT_TRUE(level_as(v1::WIRE_FORMAT_BF16));
  EXPECT_TRUE(level_as(v1::WIRE_FORMAT_FP8));
  EXPECT_TRUE(needs_label([](v1::JobSpec* spec) {
    spec->mutable_strategy()->mutable_local_sgd()->set_format(v1::WIRE_FORMAT_FP8);
  }));
  const auto gradients_as = [&](v1::WireFormat format, bool slipstream) {
    return needs_label([format, slipstream](v1::JobSpec* spec) {
      spec->set_gradient_format(format);
      if (slipstream) spec->mutable_strategy()->mutable_slipstream();
    });
  };
  EXPECT_FALSE(gradients_as(v1::WIRE_FORMAT_BF16, false));
  EXPECT_FALSE(gradients_as(v1::WIRE_FORMAT_INT8, true));
  EXPECT_TRUE(gradients_as(v1::WIRE_FORMAT_INT8, false));
  EXPECT_TRUE(gradients_as(v1::WIRE_FORMAT_FP8, false));
}

// A rank whose trainer does not know of it would take other samples than its peers.
TEST(ConvertPlanTest, EndsOfEpochsNeedTrainersThatTrainOnThem) {
  v1::JobSpec spec;
  spec.set_ranks(2);
  EXPECT_THAT(FromProto(JobId("job-1"), spec).placement.labels, Not(Contains(Key(kDropLastLabel))))
      << "a job of an earlier release";
  EXPECT_THAT(RequestOf(spec).placement.labels, Not(Contains(Key(kDropLastLabel))));
  spec.mutable_data()->set_drop_last(false);
  EXPECT_THAT(RequestOf(spec).placement.labels, Contains(Pair(kDropLastLabel, kTakesDropLast)));
}

TEST(ConvertPlanTest, AnotherLadderKeepsTheFormatsOfLevelsOverTheSameRanks) {
  v1::Strategy strategy;
  v1::LadderLevel* level = strategy.mutable_hsgd()->add_ladder();
  level->set_period(2);
  level->set_level(v1::SCOPE_NODE);
  level->set_format(v1::WIRE_FORMAT_BF16);
  level = strategy.mutable_hsgd()->add_ladder();
  level->set_period(8);
  level->set_size(4);  // All ranks.
  level->set_format(v1::WIRE_FORMAT_FP8);
  v1::Strategy changed;
  changed.ParseFromString(WithLadder(
      strategy.SerializeAsString(),
      {{1, LadderScope::kNode, 0}, {4, LadderScope::kRack, 0}, {16, LadderScope::kAll, 0}}));
  ASSERT_EQ(changed.hsgd().ladder_size(), 3);
  EXPECT_EQ(changed.hsgd().ladder(0).format(), v1::WIRE_FORMAT_BF16);
  EXPECT_EQ(changed.hsgd().ladder(1).format(), v1::WIRE_FORMAT_FP32);
  EXPECT_EQ(changed.hsgd().ladder(2).format(), v1::WIRE_FORMAT_FP8);
  changed.ParseFromString(WithLadder(strategy.SerializeAsString(), {}));
  EXPECT_EQ(changed.hsgd().ladder_size(), 0);
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
