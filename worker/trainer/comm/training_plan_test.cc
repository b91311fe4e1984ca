#include "worker/trainer/comm/training_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Kind = StrategyConfig::Kind;

TrainingPlan ThreeLevels() {
  TrainingPlan plan;
  plan.version = 7;
  plan.levels = {{2, {2, 2, 2, 2}, WireFormat::kFp32},
                 {4, {3, 5}, WireFormat::kFp32},
                 {8, {8}, WireFormat::kInt8}};
  plan.gradient_groups = {4, 4};
  return plan;
}

TEST(TrainingPlanTest, TellsTheGroupsOfARank) {
  EXPECT_THAT(MembersOf({3, 5}, 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(MembersOf({3, 5}, 3), ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(MembersOf({}, 3), ElementsAre(3));
  EXPECT_THAT(GroupsOf(ThreeLevels(), 4),
              ElementsAre(Pair(ElementsAre(4, 5), "parameters"),
                          Pair(ElementsAre(3, 4, 5, 6, 7), "parameters"),
                          Pair(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7), "parameters"),
                          Pair(ElementsAre(4, 5, 6, 7), "gradients")));
}

// Ranks 2 r and 2 r + 1 hold replica r.
TEST(TrainingPlanTest, WithShardsAGroupIsALaneThroughReplicas) {
  EXPECT_THAT(GroupsOf(ThreeLevels(), 9, Lanes{2}),
              ElementsAre(Pair(ElementsAre(9, 11), "parameters"),
                          Pair(ElementsAre(7, 9, 11, 13, 15), "parameters"),
                          Pair(ElementsAre(1, 3, 5, 7, 9, 11, 13, 15), "parameters"),
                          Pair(ElementsAre(9, 11, 13, 15), "gradients")));
  EXPECT_THAT(ReplicasOf({9, 11}, Lanes{2}), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(GroupsOf(TrainingPlan(), 3, Lanes{2}),
              ElementsAre(Pair(ElementsAre(3), "gradients")));
}

// Positions 0 to 5 of the second replica are the rows (0, 1, 2) and (3, 4, 5).
TEST(TrainingPlanTest, GroupsOfAMeshDifferInOneDimension) {
  Member member;
  member.world_size = 12;
  member.shards = 6;
  member.rank = 10;
  EXPECT_THAT(MeshGroupsOf({2, 3}, member),
              ElementsAre(ElementsAre(7, 10), ElementsAre(9, 10, 11)));
  EXPECT_THAT(MeshGroupsOf({6, 1}, member),
              ElementsAre(ElementsAre(6, 7, 8, 9, 10, 11), ElementsAre(10)));
  EXPECT_THAT(MeshGroupsOf({}, member), ElementsAre());
  for (int rank = 0; rank < 12; ++rank) {  // All members of a group have the same.
    member.rank = rank;
    const std::vector<std::vector<int>> groups = MeshGroupsOf({3, 2}, member);
    for (size_t dimension = 0; dimension < groups.size(); ++dimension) {
      for (const int other : groups[dimension]) {
        member.rank = other;
        EXPECT_EQ(MeshGroupsOf({3, 2}, member)[dimension], groups[dimension]) << rank;
      }
    }
  }
}

TEST(TrainingPlanTest, ParametersThatSeveralPositionsHaveTravelAsTheyAre) {
  TrainerConfig config;
  config.strategy.kind = Kind::kHsgd;
  config.member.world_size = 32;
  config.member.shards = 4;
  EXPECT_TRUE(CheckPlanOf(ThreeLevels(), config).ok());
  config.mesh = {4, 1};
  EXPECT_TRUE(CheckPlanOf(ThreeLevels(), config).ok());
  config.mesh = {2, 2};
  EXPECT_THAT(CheckPlanOf(ThreeLevels(), config).message(), HasSubstr("tensor-parallel ranks"));
  TrainingPlan plan = ThreeLevels();
  plan.levels.back().format = WireFormat::kFp32;
  EXPECT_TRUE(CheckPlanOf(plan, config).ok());
  config.member.world_size = 16;
  EXPECT_THAT(CheckPlanOf(plan, config).message(), HasSubstr("do not make the 4"));
}

TEST(TrainingPlanTest, WithShardsAPlanCountsReplicas) {
  const TrainingPlan plan = ThreeLevels();
  EXPECT_TRUE(CheckPlan(plan, Kind::kHsgd, 16, /*shards=*/2).ok());
  EXPECT_THAT(CheckPlan(plan, Kind::kHsgd, 8, /*shards=*/2).message(),
              HasSubstr("do not make the 4"));
}

TEST(TrainingPlanTest, TextIsShortForPeople) {
  EXPECT_EQ(LadderText(ThreeLevels()), "2:2,4:3+5,8:8:int8");
  EXPECT_EQ(LadderText(TrainingPlan()), "none");
}

TEST(TrainingPlanTest, FormatsSurviveEncoding) {
  TrainingPlan plan;
  plan.version = 1;
  for (const WireFormat format : {WireFormat::kFp32, WireFormat::kFp16, WireFormat::kBf16,
                                  WireFormat::kInt8, WireFormat::kFp8, WireFormat::kInt4}) {
    plan.levels.push_back({2, {8}, format});
  }
  EXPECT_EQ(LadderText(plan), "2:8,2:8:fp16,2:8:bf16,2:8:int8,2:8:fp8,2:8:int4");
  const absl::StatusOr<TrainingPlan> read = DecodePlan(EncodePlan(plan));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(LadderText(*read), LadderText(plan));
}

TEST(TrainingPlanTest, OuterStepsSurviveEncoding) {
  TrainingPlan plan = ThreeLevels();
  plan.levels[0].outer = OuterRule{OuterRule::Kind::kSlowMo, 1, 0.5};
  plan.levels[2].outer = OuterRule{OuterRule::Kind::kNesterov, 0.1 + 0.2, 1e-5};
  EXPECT_EQ(LadderText(plan), "2:2:slowmo,4:3+5,8:8:int8:nesterov");
  const absl::StatusOr<TrainingPlan> read = DecodePlan(EncodePlan(plan));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(LadderText(*read), LadderText(plan));
  EXPECT_FALSE(read->levels[1].outer.has_value());
  EXPECT_EQ(read->levels[0].outer->momentum, 0.5);
  EXPECT_EQ(read->levels[2].outer->learning_rate, 0.1 + 0.2) << "to the last digit";
  EXPECT_EQ(read->levels[2].outer->momentum, 1e-5);
  for (const char* text : {"1;;2:0:2:nesterov", "1;;2:0:2:adam:1:0", "1;;2:0:2:slowmo:x:0"}) {
    EXPECT_EQ(DecodePlan(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_TRUE(CheckPlan(plan, Kind::kHsgd, 8).ok());
  plan.levels[2].outer->momentum = 1;
  EXPECT_THAT(CheckPlan(plan, Kind::kHsgd, 8).message(),
              HasSubstr("plan 7, level 3: an outer step with learning rate 0.3 and momentum 1 "));
}

TrainingPlan Streamed(int64_t fragments, int64_t delay, double alpha) {
  TrainingPlan plan;
  plan.version = 7;
  PlanLevel& level = plan.levels.emplace_back();
  level.period = 12;
  level.groups = {8};
  level.outer = OuterRule{OuterRule::Kind::kNesterov, 0.7, 0.9, fragments, delay, alpha};
  return plan;
}

TEST(TrainingPlanTest, StreamedOuterStepsSurviveEncoding) {
  const absl::StatusOr<TrainingPlan> plan = DecodePlan(EncodePlan(Streamed(4, 2, 0.1 + 0.2)));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->levels[0].outer->fragments, 4);
  EXPECT_EQ(plan->levels[0].outer->delay, 2);
  EXPECT_EQ(plan->levels[0].outer->alpha, 0.1 + 0.2) << "to the last digit";
  EXPECT_EQ(LadderText(*plan), "12:8:nesterov/4/2/0.3");
  EXPECT_TRUE(IsStreamed(*plan));
  EXPECT_FALSE(IsStreamed(ThreeLevels()));
  EXPECT_FALSE(IsStreamed(Streamed(1, 0, 0))) << "as any outer step";
  EXPECT_EQ(LadderText(Streamed(1, 0, 0)), "12:8:nesterov");
  EXPECT_THAT(GroupsOf(*plan, 0)[0].second, "stream") << "for itself";
  const StreamSchedule schedule = StreamScheduleOf(*plan, {Kind::kHsgd, 1, false});
  EXPECT_FALSE(schedule.BeginsAfter(0));
  EXPECT_TRUE(schedule.BeginsAfter(3));
  EXPECT_FALSE(schedule.BeginsAfter(4));
  for (const char* text : {"1;;12:0:8:nesterov:1:0:1:2", "1;;12:0:8:nesterov:1:0:x:2:0"}) {
    EXPECT_EQ(DecodePlan(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(TrainingPlanTest, RefusesStreamsThatDoNotFit) {
  EXPECT_TRUE(CheckPlan(Streamed(4, 2, 0.5), Kind::kHsgd, 8).ok());
  EXPECT_TRUE(CheckPlan(Streamed(1, 11, 0), Kind::kLocalSgd, 8).ok());
  for (const TrainingPlan& plan : {Streamed(5, 0, 0), Streamed(4, 3, 0), Streamed(1, 12, 0)}) {
    EXPECT_THAT(CheckPlan(plan, Kind::kHsgd, 8).message(), HasSubstr("below the steps of one"));
  }
  for (const TrainingPlan& plan : {Streamed(0, 1, 0), Streamed(1, -1, 0.5), Streamed(1, 1, 1)}) {
    EXPECT_THAT(CheckPlan(plan, Kind::kHsgd, 8).message(), HasSubstr("cannot be"));
  }
  EXPECT_THAT(CheckPlan(Streamed(4, 2, 0), Kind::kHsgd, 16, /*shards=*/2).message(),
              HasSubstr("does not go with shards"));
  TrainingPlan plan = Streamed(4, 2, 0);
  plan.levels[0].format = WireFormat::kInt4;
  EXPECT_TRUE(CheckPlan(plan, Kind::kHsgd, 8).ok());
  plan = ThreeLevels();
  plan.levels[2].format = WireFormat::kFp32;
  plan.levels[2].outer = Streamed(2, 1, 0).levels[0].outer;
  EXPECT_THAT(CheckPlan(plan, Kind::kHsgd, 8).message(), HasSubstr("ladder of one level"));
  TrainerConfig config;
  config.strategy.kind = Kind::kHsgd;
  config.member.world_size = 8;
  EXPECT_TRUE(CheckPlanOf(Streamed(4, 2, 0), config).ok());
  config.strategy.average_optimizer_state = true;
  EXPECT_THAT(CheckPlanOf(Streamed(4, 2, 0), config).message(), HasSubstr("optimizer_state"));
}

TEST(TrainingPlanTest, SurvivesEncoding) {
  const absl::StatusOr<TrainingPlan> plan = DecodePlan(EncodePlan(ThreeLevels()));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->version, 7);
  EXPECT_THAT(plan->gradient_groups, ElementsAre(4, 4));
  EXPECT_EQ(LadderText(*plan), "2:2,4:3+5,8:8:int8");

  const absl::StatusOr<TrainingPlan> empty = DecodePlan(EncodePlan(TrainingPlan()));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->levels.empty());
  EXPECT_TRUE(empty->gradient_groups.empty());

  for (const char* text : {"", "1", "x;", "1;2+y", "1;;2:0", "1;;2:0:a", "1;;2:6:2", "1;;2:-1:2"}) {
    EXPECT_EQ(DecodePlan(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TrainingPlan Pausing() {
  TrainingPlan plan;
  plan.version = 7;
  plan.slipstream = SlipstreamPlan{7, SlipstreamMode::kPause, {2, 16, 40}, true};
  return plan;
}

TEST(TrainingPlanTest, SlipstreamSurvivesEncoding) {
  TrainingPlan sent = Pausing();
  sent.gradient_groups = {4, 4};
  const absl::StatusOr<TrainingPlan> plan = DecodePlan(EncodePlan(sent));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->gradient_groups, sent.gradient_groups);
  ASSERT_TRUE(plan->slipstream.has_value());
  EXPECT_EQ(plan->slipstream->version, 7);
  EXPECT_EQ(plan->slipstream->mode, SlipstreamMode::kPause);
  EXPECT_EQ(plan->slipstream->window.min_steps, 2);
  EXPECT_EQ(plan->slipstream->window.max_steps, 16);
  EXPECT_EQ(plan->slipstream->window.max_cap, 40);
  EXPECT_TRUE(plan->slipstream->averages_state);
  EXPECT_TRUE(CheckPlan(*plan, Kind::kSlipstream, 8).ok());
  EXPECT_EQ(LadderText(*plan), "pause");

  for (const char* text : {"1;;slipstream:", "1;;slipstream:4:1:1:1:0", "1;;slipstream:-1:1:1:1:0",
                           "1;;slipstream:1:1:1:1", "1;;slipstream:1:1:x:1:0"}) {
    EXPECT_EQ(DecodePlan(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(TrainingPlanTest, RefusesSlipstreamThatDoesNotFit) {
  EXPECT_THAT(CheckPlan(Pausing(), Kind::kSlipstream, 8, /*shards=*/2).message(),
              HasSubstr("job with shards"));
  EXPECT_THAT(CheckPlan(Pausing(), Kind::kHsgd, 8).message(), HasSubstr("but the job is not"));
  TrainingPlan plan;
  plan.version = 1;
  EXPECT_THAT(CheckPlan(plan, Kind::kSlipstream, 8).message(), HasSubstr("nothing of slipstream"));
  plan = Pausing();
  plan.levels = ThreeLevels().levels;
  EXPECT_THAT(CheckPlan(plan, Kind::kSlipstream, 8).message(), HasSubstr("slipstream has none"));
  plan = Pausing();
  plan.gradient_groups = {4, 4};
  EXPECT_TRUE(CheckPlan(plan, Kind::kSlipstream, 8).ok());
  EXPECT_THAT(CheckPlan(plan, Kind::kSlipstream, 6).message(), HasSubstr("do not make the 6"));
  plan = Pausing();
  plan.slipstream->mode = SlipstreamMode::kFree;
  EXPECT_THAT(CheckPlan(plan, Kind::kSlipstream, 8).message(), HasSubstr("mode pause only"));
  for (const WindowBounds& window :
       {WindowBounds{0, 1, 1}, WindowBounds{3, 2, 1}, WindowBounds{1, 1, 0}}) {
    plan = Pausing();
    plan.slipstream->window = window;
    EXPECT_THAT(CheckPlan(plan, Kind::kSlipstream, 8).message(), HasSubstr("cannot be"));
  }
}

TEST(TrainingPlanTest, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(CheckPlan(ThreeLevels(), Kind::kHsgd, 8).ok());
  TrainingPlan none;
  EXPECT_THAT(CheckPlan(none, Kind::kDdp, 8).message(), HasSubstr("versions begin at 1"));
  none.version = 1;
  EXPECT_TRUE(CheckPlan(none, Kind::kDdp, 8).ok());
  EXPECT_TRUE(CheckPlan(none, Kind::kHsgd, 8).ok()) << "synchronous";
  EXPECT_FALSE(CheckPlan(none, Kind::kLocalSgd, 8).ok());
  EXPECT_FALSE(CheckPlan(ThreeLevels(), Kind::kDdp, 8).ok());
  EXPECT_FALSE(CheckPlan(ThreeLevels(), Kind::kLocalSgd, 8).ok());
  EXPECT_THAT(CheckPlan(ThreeLevels(), Kind::kHsgd, 9).message(),
              HasSubstr("level 1: groups of 2, 2, 2, 2 ranks do not make the 9"));

  TrainingPlan plan = ThreeLevels();
  plan.levels[1].period = 0;
  EXPECT_THAT(CheckPlan(plan, Kind::kHsgd, 8).message(), HasSubstr("level 2: period 0"));
  plan = ThreeLevels();
  plan.levels.pop_back();
  EXPECT_THAT(CheckPlan(plan, Kind::kHsgd, 8).message(), HasSubstr("not one group of all"));
  plan = ThreeLevels();
  plan.levels[0].groups = {5, 3, 0};
  EXPECT_FALSE(CheckPlan(plan, Kind::kHsgd, 8).ok());
  plan = ThreeLevels();
  plan.gradient_groups = {9, -1};
  EXPECT_FALSE(CheckPlan(plan, Kind::kHsgd, 8).ok());
}

}  // namespace
}  // namespace paceline
