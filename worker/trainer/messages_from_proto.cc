#include "worker/trainer/messages_from_proto.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

using absl::StrCat;

OuterRule ReadOuter(const v1::Outer& proto) {
  OuterRule rule;
  rule.kind =
      proto.kind() == v1::OUTER_SLOWMO ? OuterRule::Kind::kSlowMo : OuterRule::Kind::kNesterov;
  rule.learning_rate = proto.learning_rate();
  rule.momentum = proto.momentum();
  rule.fragments = std::max(1, proto.fragments());
  rule.delay = proto.delay();
  rule.alpha = proto.alpha();
  return rule;
}

SlipstreamMode ReadMode(v1::SlipstreamMode mode) {
  switch (mode) {
    case v1::SLIPSTREAM_DROP:
      return SlipstreamMode::kDrop;
    case v1::SLIPSTREAM_FREE:
      return SlipstreamMode::kFree;
    case v1::SLIPSTREAM_PAUSE:
      return SlipstreamMode::kPause;
    default:
      return SlipstreamMode::kSync;
  }
}

SlipstreamPlan ReadSlipstream(int64_t version, const v1::SlipstreamPlan& proto) {
  SlipstreamPlan plan;
  plan.version = version;
  plan.mode = ReadMode(proto.mode());
  plan.window = {proto.window().min_steps(), proto.window().max_steps(), proto.window().max_cap()};
  plan.averages_state = proto.averages_state();
  return plan;
}

absl::StatusOr<CopyOrders> ReadCopies(const v1::Membership& membership) {
  const v1::MemberCopies& proto = membership.copies();
  const auto is_rank = [&](int rank) { return rank >= -1 && rank < membership.world_size(); };
  if (proto.seat() < 0 || !is_rank(proto.buddy_rank()) || !is_rank(proto.ward_rank()) ||
      proto.buddy_rank() == membership.rank() || proto.ward_rank() == membership.rank() ||
      (proto.restore() && proto.complete_step() < 1)) {
    return absl::InvalidArgumentError(StrCat("impossible copies: ", membership.ShortDebugString()));
  }
  CopyOrders orders;
  orders.generation = membership.generation();
  orders.seat = proto.seat();
  orders.buddy_rank = proto.buddy_rank();
  orders.ward_rank = proto.ward_rank();
  orders.complete_step = proto.complete_step();
  orders.complete_generation = proto.complete_generation();
  orders.settled_step = proto.settled_step();
  orders.restore = proto.restore();
  return orders;
}

// Whether the rank that is handed over is one of the generation, and the trainer's own unless it
// leaves.
bool IsHandOverPossible(const v1::Membership& proto) {
  const int rank = proto.hand_over_rank();
  return !proto.has_hand_over_rank() ||
         (rank >= 0 && rank < proto.world_size() && (proto.rank() < 0 || proto.rank() == rank));
}

}  // namespace

WireFormat WireFormatFromProto(v1::WireFormat format) {
  switch (format) {
    case v1::WIRE_FORMAT_FP16:
      return WireFormat::kFp16;
    case v1::WIRE_FORMAT_BF16:
      return WireFormat::kBf16;
    case v1::WIRE_FORMAT_INT8:
      return WireFormat::kInt8;
    case v1::WIRE_FORMAT_FP8:
      return WireFormat::kFp8;
    case v1::WIRE_FORMAT_INT4:
      return WireFormat::kInt4;
    default:
      return WireFormat::kFp32;
  }
}

absl::Status CheckReplicas(const Member& member) {
  if (member.world_size % member.shards == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat(member.world_size, " ranks are no whole replicas of ", member.shards, " shards"));
}

absl::StatusOr<Assignment> AssignmentFromProto(const v1::Membership& proto,
                                               const Member& configured) {
  if (proto.generation() < 1 || proto.world_size() < 1 || proto.rank() < -1 ||
      proto.rank() >= proto.world_size() || proto.batch_per_rank() < 0 ||
      proto.accumulation_steps() < 0 || proto.shards() < 0 || proto.saved_step() < 0 ||
      !IsHandOverPossible(proto)) {
    return absl::InvalidArgumentError(StrCat("impossible membership: ", proto.ShortDebugString()));
  }
  Assignment assignment;
  assignment.member = configured;
  assignment.member.generation = proto.generation();
  assignment.member.rank = proto.rank();
  assignment.member.world_size = proto.world_size();
  if (proto.shards() > 0) assignment.member.shards = proto.shards();
  PACELINE_RETURN_IF_ERROR(CheckReplicas(assignment.member));
  if (proto.batch_per_rank() > 0) assignment.member.batch = proto.batch_per_rank();
  if (proto.accumulation_steps() > 0) {
    assignment.member.accumulation_steps = proto.accumulation_steps();
  }
  assignment.store_address = proto.store_address();
  assignment.planned = proto.planned();
  assignment.averages_first = proto.averages_first();
  if (proto.has_saved_step()) assignment.saved_step = proto.saved_step();
  if (proto.has_hand_over_rank()) assignment.hand_over_rank = proto.hand_over_rank();
  if (proto.has_copies()) {
    PACELINE_ASSIGN_OR_RETURN(assignment.copies, ReadCopies(proto));
  }
  return assignment;
}

TrainingPlan PlanFromProto(const v1::TrainingPlan& proto) {
  TrainingPlan plan;
  plan.version = proto.version();
  for (const v1::PlanLevel& level : proto.levels()) {
    plan.levels.push_back({level.period() > 0 ? level.period() : level.guarded_period(),
                           std::vector<int>(level.groups().begin(), level.groups().end()),
                           WireFormatFromProto(level.format())});
    if (level.has_outer()) plan.levels.back().outer = ReadOuter(level.outer());
  }
  plan.gradient_groups.assign(proto.gradient_groups().begin(), proto.gradient_groups().end());
  if (proto.has_slipstream()) {
    plan.slipstream = ReadSlipstream(proto.version(), proto.slipstream());
  }
  return plan;
}

ProfileRequest ProfileRequestFromProto(const v1::ProfileRequest& proto) {
  return {proto.id(), proto.first_step(), proto.steps(), proto.memory()};
}

CheckpointPlan CheckpointPlanFromProto(const v1::CheckpointPlan& proto) {
  CheckpointPlan plan;
  plan.save = {proto.save().number(), proto.save().now()};
  for (int i = 0; i < proto.commit_steps_size(); ++i) {
    CheckpointPlan::Commit& commit = plan.commits.emplace_back();
    commit.step = proto.commit_steps(i);
    if (i < proto.commit_orders_size()) commit.order = proto.commit_orders(i);
  }
  for (const v1::SaveDirectory& named : proto.directories()) {
    plan.directories[named.order()] = named.directory();
  }
  return plan;
}

}  // namespace paceline
