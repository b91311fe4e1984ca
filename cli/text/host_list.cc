#include "cli/text/host_list.h"

#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

constexpr size_t kMaxName = 63;

absl::Status Wrong(absl::string_view word, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" ", why));
}

bool IsNumber(absl::string_view text) {
  if (text.empty() || text.size() > 9) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// "03" or "03-07".
absl::Status AppendRange(absl::string_view word, absl::string_view range,
                         std::vector<std::string>& numbers) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(range, absl::MaxSplits('-', 1));
  const absl::string_view first = ends.first;
  const absl::string_view last = range.size() == first.size() ? first : ends.second;
  if (!IsNumber(first) || !IsNumber(last)) {
    return Wrong(word, "has something else than numbers and ranges such as 01-16 in brackets");
  }
  int64_t low = 0;
  int64_t high = 0;
  if (!absl::SimpleAtoi(first, &low) || !absl::SimpleAtoi(last, &high) || high < low) {
    return Wrong(word, absl::StrCat("has the range ", range, ", which goes backwards"));
  }
  if (high - low >= static_cast<int64_t>(kMaxHosts)) {
    return Wrong(word, absl::StrCat("stands for more than ", kMaxHosts, " nodes"));
  }
  for (int64_t number = low; number <= high; ++number) {
    const std::string digits = absl::StrCat(number);
    const size_t zeros = first.size() > digits.size() ? first.size() - digits.size() : 0;
    numbers.push_back(std::string(zeros, '0') + digits);
  }
  return absl::OkStatus();
}

// Returns all names that begin as `word` does so far, each continued with what the next part means.
absl::StatusOr<std::vector<std::string>> Expand(absl::string_view word) {
  std::vector<std::string> names = {""};
  absl::string_view rest = word;
  while (!rest.empty()) {
    std::vector<std::string> parts;
    if (rest[0] == '[') {
      const size_t end = rest.find(']');
      if (end == absl::string_view::npos) return Wrong(word, "has a [ without a ]");
      for (const absl::string_view range : absl::StrSplit(rest.substr(1, end - 1), ',')) {
        PACELINE_RETURN_IF_ERROR(AppendRange(word, range, parts));
      }
      rest.remove_prefix(end + 1);
    } else {
      parts.emplace_back(rest.substr(0, rest.find('[')));
      rest.remove_prefix(parts[0].size());
    }
    if (names.size() * parts.size() > kMaxHosts) {
      return Wrong(word, absl::StrCat("stands for more than ", kMaxHosts, " nodes"));
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& part : parts) longer.push_back(name + part);
    }
    names = std::move(longer);
  }
  return names;
}

// Splits at the commas that are not in brackets.
std::vector<absl::string_view> SplitWord(absl::string_view word) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= word.size(); ++i) {
    if (i < word.size() && word[i] == '[') inside = true;
    if (i < word.size() && word[i] == ']') inside = false;
    if (i < word.size() && (inside || word[i] != ',')) continue;
    parts.push_back(word.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

absl::Status CheckName(absl::string_view word, const std::string& name) {
  constexpr char kAllowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  if (name.empty() || name.size() > kMaxName ||
      name.find_first_not_of(kAllowed) != std::string::npos) {
    return Wrong(
        word, absl::StrCat("is no name of a node: it has 1 to ", kMaxName, " of [A-Za-z0-9-_.]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHosts(const std::vector<std::string>& words) {
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const std::string& word : words) {
    for (const absl::string_view part : SplitWord(word)) {
      PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, Expand(part));
      for (const std::string& name : names) {
        PACELINE_RETURN_IF_ERROR(CheckName(part, name));
        if (seen.insert(name).second) hosts.push_back(name);
      }
      if (hosts.size() > kMaxHosts) {
        return Wrong(word, absl::StrCat("makes them more than ", kMaxHosts, " nodes"));
      }
    }
  }
  return hosts;
}

}  // namespace paceline
