#include "controller/wire/convert_plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/job_spec/job_spec.h"
#include "common/version.h"
#include "controller/wire/convert_membership.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAreArray;
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
  spec.set_shards(3);
  EXPECT_EQ(RequestOf(spec).shards, 3);
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

TEST(ConvertPlanTest, ThatNothingIsSavedYetIsSaid) {
  Membership membership;
  EXPECT_FALSE(ToProto(membership).has_saved_step());
  membership.saved_step = 0;
  EXPECT_TRUE(ToProto(membership).has_saved_step());
  membership.saved_step = 20;
  EXPECT_EQ(ToProto(membership).saved_step(), 20);
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

constexpr char kFormats[] = "formats of averages and gradients";

// Text of a spec, and what it needs beyond version 0; nothing: trainers of any release know it.
struct Needed {
  const char* spec;
  std::vector<const char*> features;
};

const Needed kNeeded[] = {
    {"", {}},
    {"ranks: 6 shards: 3", {"sharded models"}},
    {"ranks: 6 shards: 4", {}},
    {"strategy { local_sgd { period: 4 } }", {}},
    {"strategy { local_sgd { period: 4 outer { kind: OUTER_NESTEROV } } }", {"outer steps"}},
    {"strategy { hsgd { ladder { size: 2 } ladder { outer { kind: OUTER_SLOWMO } } } }",
     {"outer steps"}},
    {"precision: BF16", {}},
    {"precision: BF16_FULL", {"weights in bfloat16"}},
    {"data { train: '/a' }", {}},
    {"data { sources { path: '/a' } }", {"data of several files"}},
    {"schedule { scale_with_ranks: RANK_SCALE_NONE }", {}},
    {"schedule { scale_with_ranks: RANK_SCALE_SQRT }", {"learning rates that follow the ranks"}},
    {"strategy { hsgd { ladder { size: 2 format: WIRE_FORMAT_FP32 } } }", {}},
    {"strategy { hsgd { ladder { size: 2 format: WIRE_FORMAT_INT8 } } }", {kFormats}},
    {"strategy { hsgd { ladder { size: 2 } ladder { format: WIRE_FORMAT_INT8 } } }", {}},
    {"strategy { hsgd { ladder { size: 2 } ladder { format: WIRE_FORMAT_FP16 } } }", {kFormats}},
    {"strategy { hsgd { ladder { size: 2 format: WIRE_FORMAT_BF16 } } }", {kFormats}},
    {"strategy { local_sgd { format: WIRE_FORMAT_INT8 } }", {}},
    {"strategy { local_sgd { format: WIRE_FORMAT_FP8 } }", {kFormats}},
    {"gradient_format: WIRE_FORMAT_BF16", {}},
    {"gradient_format: WIRE_FORMAT_INT8 strategy { slipstream {} }", {}},
    {"gradient_format: WIRE_FORMAT_INT8", {kFormats}},
    {"gradient_format: WIRE_FORMAT_FP8", {kFormats}},
    {"data { drop_last: true }", {}},
    {"data { drop_last: false }", {"ends of epochs"}},
    {"model { resnet18 { sync_batchnorm: true } } strategy { ddp {} }", {}},
    {"model { resnet18 { sync_batchnorm: true } } strategy { hsgd {} }",
     {"sync_batchnorm beside averages"}},
    {"model { resnet18 { sync_batchnorm: true } } strategy { local_sgd {} }",
     {"sync_batchnorm beside averages"}},
    {"precision: BF16_FULL strategy { local_sgd { outer { kind: OUTER_SLOWMO } } }",
     {"outer steps", "weights in bfloat16"}},
    {"strategy { local_sgd { format: WIRE_FORMAT_INT4 outer { kind: OUTER_NESTEROV } } }",
     {kFormats, "outer steps"}},
};

TEST(ConvertPlanTest, SpecsNeedTrainersThatKnowTheirFeatures) {
  for (const Needed& needed : kNeeded) {
    v1::JobSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(needed.spec, &spec)) << needed.spec;
    const SpecNeeds needs = FromProto(JobId("job-1"), spec).placement.needs;
    EXPECT_THAT(needs.features, ElementsAreArray(needed.features)) << needed.spec;
    EXPECT_EQ(needs.version, needed.features.empty() ? 0 : 1) << needed.spec;
    EXPECT_LE(needs.version, kSpecVersion) << "no worker of this release knows " << needed.spec;
  }
}

TEST(ConvertPlanTest, DefaultsNeedNothing) {
  v1::JobSpec spec;
  spec.set_ranks(2);
  EXPECT_EQ(RequestOf(spec).placement.needs.version, 0);
  EXPECT_EQ(RequestOf(Command()).placement.needs.version, 0);
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
