// What a worker tells a trainer after its configuration.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/trainer/config_from_proto.h"

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
  proto.set_batch_per_rank(4);
  proto.set_accumulation_steps(6);
  proto.set_shards(1);
  proto.set_planned(true);
  proto.set_averages_first(true);
  assignment = AssignmentFromProto(proto, configured);
  EXPECT_EQ(assignment->member.batch, 4);
  EXPECT_EQ(assignment->member.accumulation_steps, 6);
  EXPECT_EQ(assignment->member.shards, 1);
  EXPECT_TRUE(assignment->planned);
  EXPECT_TRUE(assignment->averages_first);
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
