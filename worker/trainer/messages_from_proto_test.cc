#include "worker/trainer/messages_from_proto.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace paceline {
namespace {

TEST(AssignmentFromProtoTest, ZerosOfAMembershipAreTheConfigurations) {
  Member configured;
  configured.batch = 8;
  configured.accumulation_steps = 3;
  configured.shards = 2;
  v1::Membership proto;
  proto.set_generation(4);
  proto.set_rank(1);
  proto.set_world_size(2);
  proto.set_store_address("node:1");
  absl::StatusOr<Assignment> assignment = AssignmentFromProto(proto, configured);
  ASSERT_TRUE(assignment.ok()) << assignment.status();
  EXPECT_EQ(assignment->member.generation, 4);
  EXPECT_EQ(assignment->member.rank, 1);
  EXPECT_EQ(assignment->member.world_size, 2);
  EXPECT_EQ(assignment->member.shards, 2);
  EXPECT_EQ(assignment->member.samples_per_step(), 24);
  EXPECT_EQ(assignment->store_address, "node:1");
  EXPECT_FALSE(assignment->planned);
  EXPECT_FALSE(assignment->averages_first);
  EXPECT_FALSE(assignment->saved_step.has_value());
  proto.set_batch_per_rank(4);
  proto.set_accumulation_steps(6);
  proto.set_shards(1);
  proto.set_planned(true);
  proto.set_averages_first(true);
  proto.set_saved_step(0);
  assignment = AssignmentFromProto(proto, configured);
  EXPECT_EQ(assignment->member.batch, 4);
  EXPECT_EQ(assignment->member.accumulation_steps, 6);
  EXPECT_EQ(assignment->member.shards, 1);
  EXPECT_TRUE(assignment->planned);
  EXPECT_TRUE(assignment->averages_first);
  EXPECT_EQ(assignment->saved_step, 0) << "nothing is saved yet, which is known";
}

TEST(AssignmentFromProtoTest, AnImpossibleMembershipIsRefused) {
  v1::Membership proto;
  proto.set_generation(1);
  proto.set_rank(2);
  proto.set_world_size(2);
  EXPECT_EQ(AssignmentFromProto(proto, Member()).status().code(),
            absl::StatusCode::kInvalidArgument);
  proto.set_rank(-1);
  EXPECT_TRUE(AssignmentFromProto(proto, Member()).ok());
  proto.set_shards(2);
  const absl::StatusOr<Assignment> sharded = AssignmentFromProto(proto, Member());
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  EXPECT_EQ(sharded->member.shards, 2);
  proto.set_world_size(3);
  EXPECT_EQ(AssignmentFromProto(proto, Member()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

v1::TrainingPlan ParsePlan(const std::string& text) {
  v1::TrainingPlan proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  return proto;
}

TEST(PlanFromProtoTest, EveryValueArrives) {
  const TrainingPlan plan = PlanFromProto(ParsePlan(R"(
        version: 3
        levels { period: 2 groups: [1, 3] }
        levels { guarded_period: 4 groups: 4 format: WIRE_FORMAT_INT8
                 outer { kind: OUTER_SLOWMO learning_rate: 1 momentum: 0.5 delay: 3 alpha: 0.5 } }
        levels { guarded_period: 8 groups: 4 format: WIRE_FORMAT_FP8 }
        levels { guarded_period: 16 groups: 4 format: WIRE_FORMAT_INT4 outer {} }
        gradient_groups: [3, 1])"));
  EXPECT_EQ(plan.version, 3);
  ASSERT_EQ(plan.levels.size(), 4u);
  EXPECT_EQ(plan.levels[0].period, 2);
  EXPECT_EQ(plan.levels[0].groups, (std::vector<int>{1, 3}));
  EXPECT_EQ(plan.levels[0].format, WireFormat::kFp32);
  EXPECT_EQ(plan.levels[1].period, 4);
  EXPECT_EQ(plan.levels[1].groups, std::vector<int>{4});
  EXPECT_EQ(plan.levels[1].format, WireFormat::kInt8);
  EXPECT_FALSE(plan.levels[0].outer.has_value());
  ASSERT_TRUE(plan.levels[1].outer.has_value());
  EXPECT_EQ(plan.levels[1].outer->kind, OuterRule::Kind::kSlowMo);
  EXPECT_EQ(plan.levels[1].outer->learning_rate, 1);
  EXPECT_EQ(plan.levels[1].outer->momentum, 0.5);
  EXPECT_EQ(plan.levels[2].period, 8);
  EXPECT_EQ(plan.levels[2].format, WireFormat::kFp8);
  EXPECT_EQ(plan.levels[3].period, 16);
  EXPECT_EQ(plan.levels[3].format, WireFormat::kInt4);
  EXPECT_EQ(plan.levels[1].outer->fragments, 1) << "the default";
  EXPECT_EQ(plan.levels[1].outer->delay, 3);
  EXPECT_EQ(plan.levels[1].outer->alpha, 0.5);
  EXPECT_EQ(plan.gradient_groups, (std::vector<int>{3, 1}));
  EXPECT_FALSE(plan.slipstream.has_value());
}

TEST(PlanFromProtoTest, EveryValueOfSlipstreamArrives) {
  const TrainingPlan plan = PlanFromProto(ParsePlan(R"(
        version: 3
        slipstream {
          mode: SLIPSTREAM_PAUSE
          window { min_steps: 2 max_steps: 16 max_cap: 40 }
          averages_state: true
        })"));
  ASSERT_TRUE(plan.slipstream.has_value());
  EXPECT_EQ(plan.slipstream->version, 3);
  EXPECT_EQ(plan.slipstream->mode, SlipstreamMode::kPause);
  EXPECT_EQ(plan.slipstream->window.min_steps, 2);
  EXPECT_EQ(plan.slipstream->window.max_steps, 16);
  EXPECT_EQ(plan.slipstream->window.max_cap, 40);
  EXPECT_TRUE(plan.slipstream->averages_state);
}

TEST(PlanFromProtoTest, EveryModeArrives) {
  const auto mode = [](const std::string& name) {
    return PlanFromProto(ParsePlan("slipstream { mode: " + name + " }")).slipstream->mode;
  };
  EXPECT_EQ(mode("SLIPSTREAM_SYNC"), SlipstreamMode::kSync);
  EXPECT_EQ(mode("SLIPSTREAM_DROP"), SlipstreamMode::kDrop);
  EXPECT_EQ(mode("SLIPSTREAM_FREE"), SlipstreamMode::kFree);
  EXPECT_EQ(mode("SLIPSTREAM_PAUSE"), SlipstreamMode::kPause);
}

TEST(ProfileRequestFromProtoTest, EveryValueArrives) {
  v1::ProfileRequest proto;
  proto.set_id(1);
  proto.set_first_step(2);
  proto.set_steps(3);
  proto.set_memory(true);
  const ProfileRequest request = ProfileRequestFromProto(proto);
  EXPECT_EQ(request.id, 1);
  EXPECT_EQ(request.first_step, 2);
  EXPECT_EQ(request.steps, 3);
  EXPECT_TRUE(request.memory);
}

TEST(CheckpointPlanFromProtoTest, EveryValueArrives) {
  v1::CheckpointPlan proto;
  proto.mutable_save()->set_number(4);
  proto.mutable_save()->set_now(true);
  proto.add_commit_steps(20);
  proto.add_commit_steps(30);
  proto.add_commit_orders(3);
  v1::SaveDirectory& named = *proto.add_directories();
  named.set_order(3);
  named.set_directory("/spare");
  const CheckpointPlan plan = CheckpointPlanFromProto(proto);
  EXPECT_EQ(plan.save.number, 4);
  EXPECT_TRUE(plan.save.now);
  using Commit = CheckpointPlan::Commit;
  EXPECT_EQ(plan.commits, (std::vector<Commit>{{20, 3}, {30, std::nullopt}}));
  EXPECT_EQ(plan.directories, (std::map<int64_t, std::string>{{3, "/spare"}}));
}

}  // namespace
}  // namespace paceline
