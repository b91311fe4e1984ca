#include "cli/view/ladder_text.h"

#include <cstdint>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/text/neutral.h"
#include "cli/view/slipstream_text.h"
#include "common/job_spec/enum_name.h"

namespace paceline {
namespace {

constexpr char kSynchronous[] = "synchronous";
constexpr char kForm[] =
    "a level is PERIOD:SIZE or PERIOD:node|rack|all, with :int8 or :fp32 behind it if need "
    "be, such as 8:all:int8; \"synchronous\" alone stands for none";

std::optional<v1::Scope> ScopeNamed(absl::string_view name) {
  for (const v1::Scope scope : {v1::SCOPE_NODE, v1::SCOPE_RACK, v1::SCOPE_ALL}) {
    if (EnumName(*v1::Scope_descriptor(), scope) == name) return scope;
  }
  return std::nullopt;
}

std::optional<v1::WireFormat> FormatNamed(absl::string_view name) {
  for (const v1::WireFormat format : {v1::WIRE_FORMAT_FP32, v1::WIRE_FORMAT_INT8}) {
    if (EnumName(*v1::WireFormat_descriptor(), format) == name) return format;
  }
  return std::nullopt;
}

std::optional<v1::LadderLevel> ParseLevel(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  v1::LadderLevel level;
  int64_t period = 0;
  int32_t size = 0;
  if (!absl::SimpleAtoi(parts[0], &period)) return std::nullopt;
  level.set_period(period);
  if (absl::SimpleAtoi(parts[1], &size)) {
    level.set_size(size);
  } else if (const std::optional<v1::Scope> scope = ScopeNamed(parts[1]); scope.has_value()) {
    level.set_level(*scope);
  } else {
    return std::nullopt;
  }
  if (parts.size() == 3) {
    const std::optional<v1::WireFormat> format = FormatNamed(parts[2]);
    if (!format.has_value()) return std::nullopt;
    level.set_format(*format);
  }
  return level;
}

std::string LevelText(const v1::LadderLevel& level) {
  std::string text = absl::StrCat(level.period(), ":");
  if (level.level() == v1::SCOPE_UNSPECIFIED) {
    absl::StrAppend(&text, level.size());
  } else {
    absl::StrAppend(&text, EnumName(*v1::Scope_descriptor(), level.level()));
  }
  if (level.format() != v1::WIRE_FORMAT_UNSPECIFIED && level.format() != v1::WIRE_FORMAT_FP32) {
    absl::StrAppend(&text, ":", EnumName(*v1::WireFormat_descriptor(), level.format()));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::vector<v1::LadderLevel>> ParseLadder(absl::string_view text) {
  std::vector<v1::LadderLevel> ladder;
  if (text == kSynchronous) return ladder;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    std::optional<v1::LadderLevel> level = ParseLevel(part);
    if (!level.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", part, "\" is no level: ", kForm));
    }
    ladder.push_back(*std::move(level));
  }
  return ladder;
}

std::string LadderText(const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder) {
  if (ladder.empty()) return kSynchronous;
  return absl::StrJoin(ladder, ",", [](std::string* out, const v1::LadderLevel& level) {
    absl::StrAppend(out, LevelText(level));
  });
}

std::string StrategyText(const v1::Strategy& strategy) {
  if (strategy.has_hsgd()) return absl::StrCat("hsgd ", LadderText(strategy.hsgd().ladder()));
  if (strategy.has_local_sgd()) {
    return absl::StrCat("local_sgd ", strategy.local_sgd().period(), ":all");
  }
  if (strategy.has_slipstream()) return SlipstreamText(strategy);
  if (strategy.has_auto_()) return "auto, at present ddp";
  return "ddp";
}

std::string PlanFailureText(const v1::Job& job) {
  for (const v1::Rank& rank : job.ranks()) {
    if (rank.plan().failed_epoch() == 0 || rank.plan().failed_epoch() != job.plan().epoch()) {
      continue;
    }
    return absl::StrCat("rank ", rank.rank(),
                        " could not prepare it: ", NeutralLine(rank.plan().error()));
  }
  return "";
}

}  // namespace paceline
