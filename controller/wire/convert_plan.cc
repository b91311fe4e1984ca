#include "controller/wire/convert_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "controller/core/schedule/placement_policy.h"
#include "controller/wire/convert_checkpoint.h"

namespace paceline {
namespace {

LadderScope ScopeOf(v1::Scope scope) {
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

v1::Scope WireScope(LadderScope scope) {
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

// Core has the wire's values in another order.
SlipstreamMode ModeOf(v1::SlipstreamMode mode) {
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

v1::SlipstreamMode WireMode(SlipstreamMode mode) {
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

// `otherwise` also replaces values that an older version left unset.
absl::Duration Timeout(double seconds, absl::Duration otherwise) {
  return std::isfinite(seconds) && seconds > 0 ? absl::Seconds(seconds) : otherwise;
}

// A number that makes no whole replicas has no meaning.
int ShardsOf(const v1::JobSpec& spec) {
  const int shards = std::max(1, spec.shards());
  return spec.ranks() % shards == 0 ? shards : 1;
}

bool HasOuterStep(const v1::Strategy& strategy) {
  const LadderMessages& ladder = strategy.hsgd().ladder();
  return strategy.local_sgd().has_outer() ||
         std::any_of(ladder.begin(), ladder.end(),
                     [](const v1::LadderLevel& level) { return level.has_outer(); });
}

// Whether batch normalisation is synchronised within groups of gradients.
bool SynchronisesInGroups(const v1::JobSpec& spec) {
  return spec.model().resnet18().sync_batchnorm() &&
         (spec.strategy().has_hsgd() || spec.strategy().has_local_sgd());
}

bool ScalesWithRanks(const v1::JobSpec& spec) {
  const v1::RankScale scale = spec.schedule().scale_with_ranks();
  return scale != v1::RANK_SCALE_UNSPECIFIED && scale != v1::RANK_SCALE_NONE;
}

// Whether trainers of earlier releases take a level's format for another, or refuse it.
bool IsNewFormat(v1::WireFormat format, bool in_first_level) {
  if (format == v1::WIRE_FORMAT_INT8) return in_first_level;
  return format == v1::WIRE_FORMAT_FP16 || format == v1::WIRE_FORMAT_BF16 ||
         format == v1::WIRE_FORMAT_FP8 || format == v1::WIRE_FORMAT_INT4;
}

// The same for all levels.
bool HasNewFormat(const v1::Strategy& strategy) {
  const LadderMessages& ladder = strategy.hsgd().ladder();
  bool found = IsNewFormat(strategy.local_sgd().format(), /*in_first_level=*/false);
  for (int i = 0; i < ladder.size(); ++i) {
    found = found || IsNewFormat(ladder[i].format(), /*in_first_level=*/i == 0);
  }
  return found;
}

// The same for gradients.
bool HasNewGradients(const v1::JobSpec& spec) {
  const v1::WireFormat format = spec.gradient_format();
  return format == v1::WIRE_FORMAT_FP8 ||
         (format == v1::WIRE_FORMAT_INT8 && !spec.strategy().has_slipstream());
}

// Unset is what it was before there was the key.
bool TrainsToTheEnd(const v1::Data& data) { return data.has_drop_last() && !data.drop_last(); }

// What both formats of levels and of gradients are called for people.
constexpr char kFormats[] = "formats of averages and gradients";

// Gives levels the formats of `former` ones over the same ranks.
void KeepFormats(const LadderMessages& former, LadderMessages* changed) {
  for (v1::LadderLevel& level : *changed) {
    for (const v1::LadderLevel& one : former) {
      if (one.level() == level.level() && one.size() == level.size()) {
        level.set_format(one.format());
      }
    }
  }
  // It is of all ranks, by its size or its name.
  if (former.empty() || changed->empty()) return;
  changed->rbegin()->set_format(former.rbegin()->format());
}

PlacementPolicy PlacementOf(const v1::JobSpec& spec) {
  const v1::PlacementPolicy& placement = spec.placement();
  PlacementPolicy policy;
  policy.labels.insert(placement.labels().begin(), placement.labels().end());
  for (const std::string& node : placement.nodes()) policy.nodes.emplace_back(node);
  for (const std::string& node : placement.exclude_nodes()) policy.exclude_nodes.emplace_back(node);
  policy.tolerate.assign(placement.tolerate().begin(), placement.tolerate().end());
  policy.same = placement.same();
  policy.ranks_per_node = placement.ranks_per_node();
  if (placement.replica() == v1::REPLICA_PLACEMENT_REQUIRE) {
    policy.replica = ReplicaPlacement::kRequire;
  }
  if (!spec.command().empty()) policy.labels[kCommandsLabel] = kTakesCommands;
  if (spec.has_code()) policy.labels[kCodeLabel] = kTakesCode;
  if (spec.session()) policy.labels[kSessionsLabel] = kTakesSessions;
  if (spec.model().has_compiled()) policy.labels[kCompiledLabel] = kTakesCompiled;
  if (ReadsObjects(spec.data())) policy.labels[kObjectsLabel] = kTakesObjects;
  policy.needs = NeedsOf(spec);
  return policy;
}

std::optional<CommandPolicy> CommandOf(const v1::JobSpec& spec) {
  if (spec.command().empty()) return std::nullopt;
  return CommandPolicy{spec.watch(), absl::Seconds(spec.stop_grace_s()), spec.code().sha256(),
                       spec.session()};
}

// A command need not say how many steps it makes.
int64_t StepsOf(const v1::JobSpec& spec) {
  if (!spec.command().empty() && spec.steps() == 0) return kUnknownSteps;
  return spec.steps();
}

}  // namespace

JobStrategy FromProto(const v1::Strategy& strategy) {
  JobStrategy out;
  out.has_ladder = strategy.has_hsgd() || strategy.has_local_sgd();
  out.one_level = strategy.has_local_sgd();
  if (strategy.has_local_sgd()) {
    const v1::LocalSgd& local_sgd = strategy.local_sgd();
    out.ladder = {{local_sgd.period(), LadderScope::kAll, 0, local_sgd.has_outer()}};
  } else {
    out.ladder = FromProto(strategy.hsgd().ladder());
  }
  out.warmup_steps = strategy.warmup_steps();
  out.gradient_group_size = strategy.gradient_group_size();
  if (strategy.has_slipstream()) out.slipstream = FromProto(strategy.slipstream());
  out.is_auto = strategy.has_auto_();
  return out;
}

SpecNeeds NeedsOf(const v1::Strategy& strategy) {
  SpecNeeds needs;
  if (HasOuterStep(strategy)) needs.Add(1, "outer steps");
  if (HasNewFormat(strategy)) needs.Add(1, kFormats);
  return needs;
}

SpecNeeds NeedsOf(const v1::JobSpec& spec) {
  SpecNeeds needs = NeedsOf(spec.strategy());
  if (ShardsOf(spec) > 1) needs.Add(1, "sharded models");
  if (spec.precision() == v1::BF16_FULL) needs.Add(1, "weights in bfloat16");
  if (!spec.data().sources().empty()) needs.Add(1, "data of several files");
  if (ScalesWithRanks(spec)) needs.Add(1, "learning rates that follow the ranks");
  if (HasNewGradients(spec)) needs.Add(1, kFormats);
  if (TrainsToTheEnd(spec.data())) needs.Add(1, "ends of epochs");
  if (SynchronisesInGroups(spec)) needs.Add(1, "sync_batchnorm beside averages");
  return needs;
}

SlipstreamChoice FromProto(const v1::Slipstream& slipstream) {
  const v1::SlipstreamWindow& window = slipstream.window();
  SlipstreamChoice choice;
  choice.mode = ModeOf(slipstream.mode());
  choice.window = {window.min_steps(), window.max_steps(), window.max_cap()};
  return choice;
}

v1::Slipstream ToProto(const SlipstreamChoice& choice) {
  v1::Slipstream out;
  out.set_mode(WireMode(choice.mode));
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
    const LadderScope scope = ScopeOf(level.level());
    const bool has_size = scope == LadderScope::kSize;
    out.push_back(
        {level.period(), scope, has_size ? std::max(1, level.size()) : 0, level.has_outer()});
  }
  return out;
}

LadderMessages ToProto(const Ladder& ladder) {
  LadderMessages out;
  for (const LadderLevel& level : ladder) {
    v1::LadderLevel& added = *out.Add();
    added.set_period(level.period);
    added.set_level(WireScope(level.scope));
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
    LadderMessages changed = ToProto(ladder);
    KeepFormats(out.hsgd().ladder(), &changed);
    *out.mutable_hsgd()->mutable_ladder() = std::move(changed);
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

JobRequest FromProto(const JobId& id, const v1::JobSpec& spec) {
  JobStrategy strategy = FromProto(spec.strategy());
  // The optimizer of a session is not known: be careful.
  strategy.is_adaptive = strategy.is_auto && (spec.session() || spec.optimizer().has_adamw());
  return {id,
          spec.name(),
          spec.ranks(),
          spec.device() == v1::CUDA ? Device::kCuda : Device::kCpu,
          spec.SerializeAsString(),
          StepsOf(spec),
          std::move(strategy),
          spec.strategy().SerializeAsString(),
          FromProto(spec.checkpoint()),
          spec.max_restarts(),
          spec.resume_from(),
          spec.queue().empty() ? "default" : spec.queue(),  // Empty in a version without queues.
          spec.priority(),
          PlacementOf(spec),
          spec.recovery().spares(),
          RecoveryOf(spec),
          TimeoutsOf(spec),
          FromProto(spec.stragglers()),
          CommandOf(spec),
          ShardsOf(spec),
          std::map<std::string, std::string>(spec.labels().begin(), spec.labels().end()),
          spec.description()};
}

RecoveryPolicy RecoveryOf(const v1::JobSpec& spec) {
  const v1::Recovery& recovery = spec.recovery();
  RecoveryPolicy out;
  out.max_failures = recovery.max_failures();
  out.window = Timeout(recovery.window_s(), out.window);
  out.min_ranks = recovery.min_ranks();
  out.max_ranks = recovery.max_ranks();
  if (recovery.batch() == v1::KEEP_RANK_BATCH) out.rule = BatchRule::kKeepRank;
  out.batch = {std::max(1, spec.batch_per_rank()), std::max(1, spec.accumulation_steps())};
  out.least_samples = LeastSamples(spec.model());
  out.copy_every_steps = recovery.copy_every_steps();
  return out;
}

JobTimeouts TimeoutsOf(const v1::JobSpec& spec) {
  JobTimeouts out;
  out.stall_warning = Timeout(spec.stall_warning_s(), out.stall_warning);
  out.hang = Timeout(spec.hang_timeout_s(), out.hang);
  out.collective = Timeout(spec.collective_timeout_s(), out.collective);
  out.startup = Timeout(spec.startup_timeout_s(), out.startup);
  out.give_up = Timeout(spec.give_up_s(), out.give_up);
  return out;
}

}  // namespace paceline
