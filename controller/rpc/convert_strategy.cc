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

// Core's values are the wire's in another order.
SlipstreamMode FromProto(v1::SlipstreamMode mode) {
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

v1::SlipstreamMode ToProto(SlipstreamMode mode) {
  switch (mode) {
    case SlipstreamMode::kSync:
      return v1::SLIPSTREAM_SYNC;
    case SlipstreamMode::kDrop:
      return v1::SLIPSTREAM_DROP;
    case SlipstreamMode::kFree:
      return v1::SLIPSTREAM_FREE;
    case SlipstreamMode::kPause:
      return v1::SLIPSTREAM_PAUSE;
  }
  return v1::SLIPSTREAM_UNSPECIFIED;
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
  if (strategy.has_slipstream()) out.slipstream = FromProto(strategy.slipstream());
  out.is_auto = strategy.has_auto_();
  return out;
}

SlipstreamChoice FromProto(const v1::Slipstream& slipstream) {
  const v1::SlipstreamWindow& window = slipstream.window();
  SlipstreamChoice choice;
  choice.mode = FromProto(slipstream.mode());
  choice.window = {window.min_steps(), window.max_steps(), window.max_cap()};
  return choice;
}

v1::Slipstream ToProto(const SlipstreamChoice& choice) {
  v1::Slipstream out;
  out.set_mode(ToProto(choice.mode));
  out.mutable_window()->set_min_steps(choice.window.min_steps);
  out.mutable_window()->set_max_steps(choice.window.max_steps);
  out.mutable_window()->set_max_cap(choice.window.max_cap);
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

std::string StrategyOf(const std::string& asked, const std::optional<SlipstreamChoice>& choice) {
  if (!choice.has_value()) return asked;
  v1::Strategy out;
  *out.mutable_slipstream() = ToProto(*choice);
  out.set_optimizer_state(v1::OPTIMIZER_STATE_LOCAL);
  return out.SerializeAsString();
}

}  // namespace paceline
