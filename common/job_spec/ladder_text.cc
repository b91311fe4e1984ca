#include "common/job_spec/ladder_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/job_spec/enum_name.h"

namespace paceline {
namespace {

constexpr char kSynchronous[] = "synchronous";
constexpr char kForm[] =
    "a level is PERIOD:SIZE or PERIOD:node|rack|all, with a format, :bf16, :fp16, :fp8, :int8 "
    "or, before an outer step, :int4, behind it if need be, such as 8:all:int8, and an outer step, "
    ":nesterov or :slowmo, with /RATE/MOMENTUM (RATE above 0) if need be, such as "
    "500:all:nesterov/0.7/0.9, and /FRAGMENTS/DELAY/ALPHA behind these if it is streamed, such as "
    "500:all:nesterov/0.7/0.9/4/10/0.5; \"synchronous\" alone stands for none";

std::optional<v1::Scope> ScopeNamed(absl::string_view name) {
  for (const v1::Scope scope : {v1::SCOPE_NODE, v1::SCOPE_RACK, v1::SCOPE_ALL}) {
    if (EnumName(*v1::Scope_descriptor(), scope) == name) return scope;
  }
  return std::nullopt;
}

std::optional<v1::WireFormat> FormatNamed(absl::string_view name) {
  for (const v1::WireFormat format :
       {v1::WIRE_FORMAT_FP32, v1::WIRE_FORMAT_FP16, v1::WIRE_FORMAT_BF16, v1::WIRE_FORMAT_INT8,
        v1::WIRE_FORMAT_FP8, v1::WIRE_FORMAT_INT4}) {
    if (EnumName(*v1::WireFormat_descriptor(), format) == name) return format;
  }
  return std::nullopt;
}

// "nesterov", "nesterov/0.7/0.9" or "nesterov/0.7/0.9/4/10/0.5".
std::optional<v1::Outer> ParseOuter(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  v1::Outer outer;
  for (const v1::OuterKind kind : {v1::OUTER_NESTEROV, v1::OUTER_SLOWMO}) {
    if (EnumName(*v1::OuterKind_descriptor(), kind) == parts[0]) outer.set_kind(kind);
  }
  if (outer.kind() == v1::OUTER_UNSPECIFIED) return std::nullopt;
  if (parts.size() == 1) return outer;
  double rate = 0;
  double momentum = 0;
  // A rate of 0 would stand for the default.
  if ((parts.size() != 3 && parts.size() != 6) || !absl::SimpleAtod(parts[1], &rate) ||
      !(rate > 0) || !absl::SimpleAtod(parts[2], &momentum)) {
    return std::nullopt;
  }
  outer.set_learning_rate(rate);
  outer.set_momentum(momentum);
  if (parts.size() == 3) return outer;
  int32_t fragments = 0;
  int64_t delay = 0;
  double alpha = 0;
  if (!absl::SimpleAtoi(parts[3], &fragments) || !absl::SimpleAtoi(parts[4], &delay) ||
      !absl::SimpleAtod(parts[5], &alpha)) {
    return std::nullopt;
  }
  outer.set_fragments(fragments);
  outer.set_delay(delay);
  outer.set_alpha(alpha);
  return outer;
}

// What may follow group and period: a format, an outer step, or both in this order.
bool ParseOptions(const std::vector<std::string>& parts, v1::LadderLevel* level) {
  size_t at = 2;
  if (at < parts.size()) {
    const std::optional<v1::WireFormat> format = FormatNamed(parts[at]);
    if (format.has_value()) {
      level->set_format(*format);
      ++at;
    }
  }
  if (at < parts.size()) {
    const std::optional<v1::Outer> outer = ParseOuter(parts[at]);
    if (!outer.has_value()) return false;
    *level->mutable_outer() = *outer;
    ++at;
  }
  return at == parts.size();
}

std::optional<v1::LadderLevel> ParseLevel(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() < 2) return std::nullopt;
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
  if (!ParseOptions(parts, &level)) return std::nullopt;
  return level;
}

std::string OuterText(const v1::Outer& outer) {
  const std::string kind = EnumName(*v1::OuterKind_descriptor(), outer.kind());
  // Without: the controller's defaults.
  if (outer.learning_rate() == 0) return kind;
  std::string text = absl::StrCat(kind, "/", outer.learning_rate(), "/", outer.momentum());
  if (outer.fragments() > 1 || outer.delay() > 0 || outer.alpha() > 0) {
    absl::StrAppend(&text, "/", std::max(1, outer.fragments()), "/", outer.delay(), "/",
                    outer.alpha());
  }
  return text;
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
  if (level.has_outer()) absl::StrAppend(&text, ":", OuterText(level.outer()));
  return text;
}

// "slipstream drop"; "slipstream pause, window 1:8:32, optimizer state averaged".
std::string SlipstreamText(const v1::Strategy& strategy) {
  const v1::Slipstream& slipstream = strategy.slipstream();
  std::string text =
      absl::StrCat("slipstream ", EnumName(*v1::SlipstreamMode_descriptor(), slipstream.mode()));
  if (HasWindow(slipstream.mode())) {
    const v1::SlipstreamWindow& window = slipstream.window();
    absl::StrAppend(&text, ", window ", window.min_steps(), ":", window.max_steps(), ":",
                    window.max_cap());
  }
  if (strategy.optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE) {
    absl::StrAppend(&text, ", optimizer state averaged");
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
    v1::LadderLevel level;
    level.set_period(strategy.local_sgd().period());
    level.set_level(v1::SCOPE_ALL);
    level.set_format(strategy.local_sgd().format());
    if (strategy.local_sgd().has_outer()) *level.mutable_outer() = strategy.local_sgd().outer();
    return absl::StrCat("local_sgd ", LevelText(level));
  }
  if (strategy.has_slipstream()) return SlipstreamText(strategy);
  if (strategy.has_auto_()) return "auto, at present ddp";
  return "ddp";
}

bool HasWindow(v1::SlipstreamMode mode) {
  return mode == v1::SLIPSTREAM_FREE || mode == v1::SLIPSTREAM_PAUSE;
}

std::string StrategyInUse(const v1::Strategy& asked, const v1::Strategy& used) {
  const bool chosen = asked.has_auto_() && !used.has_auto_();
  return absl::StrCat(chosen ? "auto, at present " : "", StrategyText(used));
}

}  // namespace paceline
