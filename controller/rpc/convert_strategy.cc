#include "controller/rpc/convert_strategy.h"

#include <algorithm>

namespace paceline {
namespace {

LadderScope FromProto(v1::Scope scope) {
  switch (scope) {
    case v1::SCOPE_NODE:
      return LadderScope::kNode;
    case v1::SCOPE_RACK:
      return LadderScope::kRack;
    case v1::SCOPE_ALL:
      return LadderScope::kAll;
    default:
      return LadderScope::kSize;
  }
}

v1::Scope ToProto(LadderScope scope) {
  switch (scope) {
    case LadderScope::kNode:
      return v1::SCOPE_NODE;
    case LadderScope::kRack:
      return v1::SCOPE_RACK;
    case LadderScope::kAll:
      return v1::SCOPE_ALL;
    case LadderScope::kSize:
      break;
  }
  return v1::SCOPE_UNSPECIFIED;
}

}  // namespace

JobStrategy FromProto(const v1::Strategy& strategy) {
  JobStrategy out;
  out.has_ladder = strategy.has_hsgd() || strategy.has_local_sgd();
  out.one_level = strategy.has_local_sgd();
  if (strategy.has_local_sgd()) {
    out.ladder = {{strategy.local_sgd().period(), LadderScope::kAll, 0}};
  } else {
    out.ladder = FromProto(strategy.hsgd().ladder());
  }
  out.warmup_steps = strategy.warmup_steps();
  out.gradient_group_size = strategy.gradient_group_size();
  out.has_mode = strategy.has_slipstream();
  out.own_pace =
      strategy.has_slipstream() && (strategy.slipstream().mode() == v1::SLIPSTREAM_FREE ||
                                    strategy.slipstream().mode() == v1::SLIPSTREAM_DROP);
  return out;
}

StragglerMode FromProto(const v1::StragglerPolicy& policy) {
  switch (policy.mode()) {
    case v1::STRAGGLER_MODE_OFF:
      return StragglerMode::kOff;
    case v1::STRAGGLER_MODE_AUTO:
      return StragglerMode::kAuto;
    default:
      return StragglerMode::kAdvise;
  }
}

Ladder FromProto(const LadderMessages& ladder) {
  Ladder out;
  for (const v1::LadderLevel& level : ladder) {
    const LadderScope scope = FromProto(level.level());
    const bool has_size = scope == LadderScope::kSize;
    out.push_back({level.period(), scope, has_size ? std::max(1, level.size()) : 0});
  }
  return out;
}

LadderMessages ToProto(const Ladder& ladder) {
  LadderMessages out;
  for (const LadderLevel& level : ladder) {
    v1::LadderLevel& added = *out.Add();
    added.set_period(level.period);
    added.set_level(ToProto(level.scope));
    added.set_size(level.size);
    added.set_format(v1::WIRE_FORMAT_FP32);
  }
  return out;
}

std::string WithLadder(const std::string& strategy, const Ladder& ladder) {
  v1::Strategy out;
  out.ParseFromString(strategy);
  if (out.has_local_sgd()) {
    out.mutable_local_sgd()->set_period(ladder.empty() ? 1 : ladder.front().period);
  } else {
    *out.mutable_hsgd()->mutable_ladder() = ToProto(ladder);
  }
  return out.SerializeAsString();
}

}  // namespace paceline
