#include "worker/trainer/comm/training_plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "worker/trainer/core/outer_rule.h"

namespace paceline {
namespace {

constexpr char kParameters[] = "parameters";
constexpr char kStream[] = "stream";  // kStreamUse of group.h.
constexpr char kGradients[] = "gradients";
constexpr char kSlipstream[] = "slipstream:";

absl::Status CheckGroups(absl::string_view what, const std::vector<int>& groups, int world_size) {
  const int64_t sum = std::accumulate(groups.begin(), groups.end(), int64_t{0});
  const bool positive = std::all_of(groups.begin(), groups.end(), [](int n) { return n > 0; });
  if (positive && sum == world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": groups of ", absl::StrJoin(groups, ", "),
                                                 " ranks do not make the ", world_size,
                                                 " of the job"));
}

const char* ModeText(SlipstreamMode mode) {
  switch (mode) {
    case SlipstreamMode::kSync:
      return "sync";
    case SlipstreamMode::kDrop:
      return "drop";
    case SlipstreamMode::kFree:
      return "free";
    case SlipstreamMode::kPause:
      return "pause";
  }
  return "";
}

const char* FormatText(WireFormat format) {
  switch (format) {
    case WireFormat::kFp32:
      return "fp32";
    case WireFormat::kFp16:
      return "fp16";
    case WireFormat::kBf16:
      return "bf16";
    case WireFormat::kInt8:
      return "int8";
    case WireFormat::kFp8:
      return "fp8";
    case WireFormat::kInt4:
      return "int4";
  }
  return "";
}

const char* KindText(OuterRule::Kind kind) {
  return kind == OuterRule::Kind::kSlowMo ? "slowmo" : "nesterov";
}

// Checks the bounds, and which options each mode allows.
absl::Status CheckSlipstream(const std::string& name, const SlipstreamPlan& plan) {
  const WindowBounds& window = plan.window;
  if (window.min_steps < 1 || window.max_steps < window.min_steps || window.max_cap < 1) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": a window of ", window.min_steps, " to ",
                                                   window.max_steps, " steps with a cap of ",
                                                   window.max_cap, " cannot be"));
  }
  if (plan.averages_state && plan.mode != SlipstreamMode::kPause) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the optimizer's state is averaged in mode pause only"));
  }
  return absl::OkStatus();
}

bool ParseSizes(absl::string_view text, std::vector<int>* sizes) {
  for (const absl::string_view part : absl::StrSplit(text, '+', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(part, &sizes->emplace_back())) return false;
  }
  return true;
}

bool ParseSlipstream(absl::string_view text, SlipstreamPlan* plan) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  int mode = 0;
  int averages_state = 0;
  WindowBounds& window = plan->window;
  if (parts.size() != 6 || !absl::SimpleAtoi(parts[1], &mode) || mode < 0 ||
      mode > static_cast<int>(SlipstreamMode::kPause) ||
      !absl::SimpleAtoi(parts[2], &window.min_steps) ||
      !absl::SimpleAtoi(parts[3], &window.max_steps) ||
      !absl::SimpleAtoi(parts[4], &window.max_cap) ||
      !absl::SimpleAtoi(parts[5], &averages_state)) {
    return false;
  }
  plan->mode = static_cast<SlipstreamMode>(mode);
  plan->averages_state = averages_state != 0;
  return true;
}

bool ParseOuter(absl::string_view kind, absl::string_view learning_rate, absl::string_view momentum,
                OuterRule* rule) {
  rule->kind = kind == KindText(OuterRule::Kind::kSlowMo) ? OuterRule::Kind::kSlowMo
                                                          : OuterRule::Kind::kNesterov;
  return kind == KindText(rule->kind) && absl::SimpleAtod(learning_rate, &rule->learning_rate) &&
         absl::SimpleAtod(momentum, &rule->momentum);
}

// Of fragments, delay and alpha.
bool ParseStream(const absl::string_view* parts, OuterRule* rule) {
  return absl::SimpleAtoi(parts[0], &rule->fragments) && absl::SimpleAtoi(parts[1], &rule->delay) &&
         absl::SimpleAtod(parts[2], &rule->alpha);
}

bool ParseLevel(absl::string_view text, PlanLevel* level) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  int format = 0;
  if ((parts.size() != 3 && parts.size() != 6 && parts.size() != 9) ||
      !absl::SimpleAtoi(parts[0], &level->period) || !absl::SimpleAtoi(parts[1], &format) ||
      format < 0 || format > static_cast<int>(WireFormat::kInt4) ||
      !ParseSizes(parts[2], &level->groups)) {
    return false;
  }
  level->format = static_cast<WireFormat>(format);
  if (parts.size() == 3) return true;
  OuterRule& outer = level->outer.emplace();
  return ParseOuter(parts[3], parts[4], parts[5], &outer) &&
         (parts.size() == 6 || ParseStream(&parts[6], &outer));
}

// Of a streamed level.
absl::Status CheckStream(const std::string& which, const PlanLevel& level, bool alone, int shards) {
  const OuterRule& outer = *level.outer;
  const auto refused = [&which](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat(which, ": a streamed outer step ", why));
  };
  if (!alone) return refused("is that of a ladder of one level");
  if (shards > 1) return refused("does not go with shards");
  if (level.period % outer.fragments != 0 || outer.delay >= level.period / outer.fragments) {
    return refused(
        "has a period that its fragments divide, and a delay below the steps of one fragment");
  }
  return absl::OkStatus();
}

absl::Status CheckLevel(const std::string& which, const PlanLevel& level, int world_size) {
  if (level.period < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(which, ": period ", level.period, " is less than 1"));
  }
  if (level.outer.has_value() && !IsPossible(*level.outer)) {
    return absl::InvalidArgumentError(absl::StrCat(
        which, ": an outer step with learning rate ", level.outer->learning_rate, " and momentum ",
        level.outer->momentum, " in ", level.outer->fragments, " fragments with delay ",
        level.outer->delay, " and alpha ", level.outer->alpha,
        " cannot be: the rate is above 0, momentum and alpha from 0 to below 1, fragments 1 and "
        "more, the delay 0 and more"));
  }
  return CheckGroups(which, level.groups, world_size);
}

}  // namespace

absl::Status CheckPlan(const TrainingPlan& plan, StrategyConfig::Kind kind, int world_size,
                       int shards) {
  const std::string name = absl::StrCat("plan ", plan.version);
  if (shards > 1) {
    if (plan.slipstream.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is one of slipstream, which cannot train a job with shards"));
    }
    world_size /= shards;  // From here on, a replica is a rank.
  }
  if (plan.version < 1)
    return absl::InvalidArgumentError(absl::StrCat(name, ": versions begin at 1"));
  if ((kind == StrategyConfig::Kind::kSlipstream) != plan.slipstream.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, plan.slipstream.has_value() ? " is one of slipstream, but the job is not"
                                                       : " says nothing of slipstream"));
  }
  if (plan.slipstream.has_value()) {
    if (!plan.levels.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " has levels, but slipstream has none"));
    }
    const absl::Status fits = CheckSlipstream(name, *plan.slipstream);
    if (!fits.ok()) return fits;
  }
  const size_t levels = plan.levels.size();
  if (kind == StrategyConfig::Kind::kDdp && levels != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", levels, " levels, but ddp has none"));
  }
  if (kind == StrategyConfig::Kind::kLocalSgd && levels != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", levels, " levels, but local_sgd has one"));
  }
  for (size_t i = 0; i < levels; ++i) {
    const absl::Status level =
        CheckLevel(absl::StrCat(name, ", level ", i + 1), plan.levels[i], world_size);
    if (!level.ok()) return level;
    if (!plan.levels[i].outer.has_value() || !plan.levels[i].outer->is_streamed()) continue;
    const absl::Status stream = CheckStream(absl::StrCat(name, ", level ", i + 1), plan.levels[i],
                                            /*alone=*/levels == 1, shards);
    if (!stream.ok()) return stream;
  }
  if (levels != 0 && plan.levels.back().groups.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the last level is not one group of all ranks"));
  }
  if (plan.gradient_groups.empty()) return absl::OkStatus();
  return CheckGroups(absl::StrCat(name, ", gradients"), plan.gradient_groups, world_size);
}

absl::Status CheckPlanOf(const TrainingPlan& plan, const TrainerConfig& config) {
  const Member& member = config.member;
  const absl::Status fits = CheckPlan(plan, config.strategy.kind, member.world_size, member.shards);
  if (!fits.ok()) return fits;
  if (IsStreamed(plan) &&
      (config.strategy.average_optimizer_state || config.optimizer.compensated)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan ", plan.version, " has a streamed outer step, which goes neither with ",
        "optimizer_state average nor with precision bf16_full: leave its fragments, delay and "
        "alpha out"));
  }
  const bool has_copies = !config.mesh.empty() && config.mesh.front() < member.shards;
  for (const PlanLevel& level : plan.levels) {
    if (!has_copies || level.format == WireFormat::kFp32) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("plan ", plan.version, " has a level of ", FormatText(level.format),
                     ", which does not go with a mesh that has tensor-parallel ranks: give it "
                     "format fp32"));
  }
  return absl::OkStatus();
}

AveragingSchedule ScheduleOf(const TrainingPlan& plan, const StrategyConfig& strategy) {
  AveragingSchedule schedule;
  schedule.kind = strategy.kind == StrategyConfig::Kind::kLocalSgd
                      ? AveragingSchedule::Kind::kPeriodic
                      : AveragingSchedule::Kind::kHierarchical;
  for (const PlanLevel& level : plan.levels) schedule.periods.push_back(level.period);
  if (IsStreamed(plan)) schedule.periods.front() /= plan.levels.front().outer->fragments;
  schedule.warmup_steps = strategy.warmup_steps;
  return schedule;
}

bool IsStreamed(const TrainingPlan& plan) {
  return plan.levels.size() == 1 && plan.levels.front().outer.has_value() &&
         plan.levels.front().outer->is_streamed();
}

StreamSchedule StreamScheduleOf(const TrainingPlan& plan, const StrategyConfig& strategy) {
  const OuterRule& outer = *plan.levels.front().outer;
  return {ScheduleOf(plan, strategy), outer.fragments, outer.delay};
}

std::vector<int> MembersOf(const std::vector<int>& groups, int rank) {
  int first = 0;
  for (const int size : groups) {
    if (rank < first + size) {
      std::vector<int> members(static_cast<size_t>(size));
      std::iota(members.begin(), members.end(), first);
      return members;
    }
    first += size;
  }
  return {rank};
}

std::vector<std::pair<std::vector<int>, std::string>> GroupsOf(const TrainingPlan& plan, int rank,
                                                               const Lanes& lanes) {
  const auto lane_in = [&](const std::vector<int>& groups) {
    return lanes.LaneOf(lanes.PositionOf(rank), MembersOf(groups, lanes.ReplicaOf(rank)));
  };
  std::vector<std::pair<std::vector<int>, std::string>> all;
  const char* const use = IsStreamed(plan) ? kStream : kParameters;
  for (const PlanLevel& level : plan.levels) all.emplace_back(lane_in(level.groups), use);
  all.emplace_back(lane_in(plan.gradient_groups), kGradients);
  return all;
}

std::vector<std::vector<int>> MeshGroupsOf(const std::vector<int>& mesh, const Member& member) {
  std::vector<std::vector<int>> groups;
  int stride = member.shards;  // Between neighbours in the dimension.
  for (const int size : mesh) {
    stride /= size;
    const int index = member.lanes().PositionOf(member.rank) / stride % size;
    std::vector<int>& group = groups.emplace_back();
    for (int other = 0; other < size; ++other) {
      group.push_back(member.rank + (other - index) * stride);
    }
  }
  return groups;
}

std::vector<int> ReplicasOf(const std::vector<int>& lane, const Lanes& lanes) {
  std::vector<int> ranks;
  for (const int rank : lane) {
    for (int position = 0; position < lanes.shards; ++position) {
      ranks.push_back(lanes.RankOf(lanes.ReplicaOf(rank), position));
    }
  }
  return ranks;
}

std::string LadderText(const TrainingPlan& plan) {
  if (plan.slipstream.has_value()) return ModeText(plan.slipstream->mode);
  if (plan.levels.empty()) return "none";
  return absl::StrJoin(plan.levels, ",", [](std::string* out, const PlanLevel& level) {
    const std::vector<int>& groups = level.groups;
    const bool equal =
        std::all_of(groups.begin(), groups.end(), [&](int size) { return size == groups.front(); });
    absl::StrAppend(out, level.period, ":");
    absl::StrAppend(out, equal ? absl::StrCat(groups.front()) : absl::StrJoin(groups, "+"));
    if (level.format != WireFormat::kFp32) absl::StrAppend(out, ":", FormatText(level.format));
    if (!level.outer.has_value()) return;
    const OuterRule& outer = *level.outer;
    absl::StrAppend(out, ":", KindText(outer.kind));
    if (!outer.is_streamed()) return;
    absl::StrAppend(out, "/", outer.fragments, "/", outer.delay, "/", outer.alpha);
  });
}

// Format: "version;gradient sizes;period:format:sizes;..." with sizes like "4+4", and
// ":kind:learning rate:momentum" behind those of a level with an outer step, and
// ":fragments:delay:alpha" behind that if it is streamed; for Slipstream
// "version;gradient sizes;slipstream:mode:min_steps:max_steps:max_cap:averages_state".
std::string EncodePlan(const TrainingPlan& plan) {
  std::string text = absl::StrCat(plan.version, ";", absl::StrJoin(plan.gradient_groups, "+"));
  for (const PlanLevel& level : plan.levels) {
    absl::StrAppend(&text, ";", level.period, ":", static_cast<int>(level.format), ":",
                    absl::StrJoin(level.groups, "+"));
    if (!level.outer.has_value()) continue;
    // All digits: ranks must compute with the same numbers.
    absl::StrAppendFormat(&text, ":%s:%.17g:%.17g", KindText(level.outer->kind),
                          level.outer->learning_rate, level.outer->momentum);
    if (!level.outer->is_streamed()) continue;
    absl::StrAppendFormat(&text, ":%d:%d:%.17g", level.outer->fragments, level.outer->delay,
                          level.outer->alpha);
  }
  if (plan.slipstream.has_value()) {
    const WindowBounds& window = plan.slipstream->window;
    absl::StrAppend(&text, ";", kSlipstream, static_cast<int>(plan.slipstream->mode), ":",
                    window.min_steps, ":", window.max_steps, ":", window.max_cap, ":",
                    plan.slipstream->averages_state ? 1 : 0);
  }
  return text;
}

absl::StatusOr<TrainingPlan> DecodePlan(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ';');
  TrainingPlan plan;
  bool good = parts.size() >= 2 && absl::SimpleAtoi(parts[0], &plan.version) &&
              ParseSizes(parts[1], &plan.gradient_groups);
  for (size_t i = 2; good && i < parts.size(); ++i) {
    if (absl::StartsWith(parts[i], kSlipstream)) {
      good = ParseSlipstream(parts[i], &plan.slipstream.emplace());
      plan.slipstream->version = plan.version;
    } else {
      good = ParseLevel(parts[i], &plan.levels.emplace_back());
    }
  }
  if (good) return plan;
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a training plan"));
}

}  // namespace paceline
