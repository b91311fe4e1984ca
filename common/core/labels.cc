#include "common/core/labels.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/core/utf8_prefix.h"

namespace paceline {
namespace {

constexpr size_t kMostCharacters = 63;

bool IsName(absl::string_view text) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kMostCharacters &&
         std::all_of(text.begin(), text.end(), allowed) &&
         absl::ascii_isalnum(static_cast<unsigned char>(text.front())) &&
         absl::ascii_isalnum(static_cast<unsigned char>(text.back()));
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(Utf8Prefix(text, 80)), "\"");
}

absl::Status Wrong(absl::string_view condition, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the label selector has ", Quoted(condition), ", ", why));
}

}  // namespace

bool IsLabelKey(absl::string_view text) {
  const size_t slash = text.find('/');
  if (slash == absl::string_view::npos) return IsName(text);
  return IsName(text.substr(0, slash)) && IsName(text.substr(slash + 1));
}

bool IsLabelValue(absl::string_view text) { return text.empty() || IsName(text); }

absl::StatusOr<JobLabels> Relabelled(JobLabels labels, absl::Span<const std::string> changes) {
  for (const std::string& change : changes) {
    absl::string_view key = change;
    const size_t equals = change.find('=');
    const bool sets = equals != std::string::npos;
    if (sets) {
      key = key.substr(0, equals);
    } else if (!absl::ConsumeSuffix(&key, "-")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has ", Quoted(change), "; allowed are KEY=VALUE to set a label, KEY- to remove one"));
    }
    if (!IsLabelKey(key)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has ", Quoted(change), ", whose key is not one; allowed are ", kLabelKeyRule));
    }
    const std::string value = sets ? change.substr(equals + 1) : "";
    if (!IsLabelValue(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has ", Quoted(change), ", whose value is not one; allowed are ", kLabelValueRule));
    }
    if (sets) {
      labels[std::string(key)] = value;
    } else {
      labels.erase(std::string(key));
    }
  }
  return labels;
}

absl::StatusOr<LabelSelector> LabelSelector::Parse(absl::string_view text) {
  LabelSelector selector;
  if (absl::StripAsciiWhitespace(text).empty()) return selector;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (selector.conditions_.size() == kMostConditions) {
      return absl::InvalidArgumentError(absl::StrCat("the label selector has more than ",
                                                     kMostConditions,
                                                     " conditions, which are the most allowed"));
    }
    absl::StatusOr<Condition> condition = ParseCondition(absl::StripAsciiWhitespace(part));
    if (!condition.ok()) return condition.status();
    selector.conditions_.push_back(*std::move(condition));
  }
  return selector;
}

absl::StatusOr<LabelSelector::Condition> LabelSelector::ParseCondition(absl::string_view text) {
  Condition condition{Kind::kExists, "", ""};
  absl::string_view key = text;
  absl::string_view value;
  const size_t equals = text.find('=');
  if (absl::ConsumePrefix(&key, "!")) {
    condition.kind = Kind::kMissing;
  } else if (equals != absl::string_view::npos) {
    key = text.substr(0, equals);
    value = text.substr(equals + 1);
    if (absl::ConsumeSuffix(&key, "!")) {
      condition.kind = Kind::kDiffers;
    } else {
      condition.kind = Kind::kEquals;
      absl::ConsumePrefix(&value, "=");
    }
  }
  key = absl::StripAsciiWhitespace(key);
  value = absl::StripAsciiWhitespace(value);
  if (!IsLabelKey(key)) {
    return Wrong(text, absl::StrCat("whose key is not one; allowed are KEY=VALUE, KEY!=VALUE, KEY "
                                    "and !KEY, and in a key ",
                                    kLabelKeyRule));
  }
  if (!IsLabelValue(value)) {
    return Wrong(text, absl::StrCat("whose value no label has; allowed are ", kLabelValueRule));
  }
  condition.key = std::string(key);
  condition.value = std::string(value);
  return condition;
}

bool LabelSelector::Matches(const JobLabels& labels) const {
  return std::all_of(conditions_.begin(), conditions_.end(),
                     [&](const Condition& condition) { return Holds(condition, labels); });
}

bool LabelSelector::Holds(const Condition& condition, const JobLabels& labels) {
  const auto found = labels.find(condition.key);
  const bool is_there = found != labels.end();
  switch (condition.kind) {
    case Kind::kEquals:
      return is_there && found->second == condition.value;
    case Kind::kDiffers:
      return !is_there || found->second != condition.value;
    case Kind::kExists:
      return is_there;
    case Kind::kMissing:
      return !is_there;
  }
  return false;
}

}  // namespace paceline
