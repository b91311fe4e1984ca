#include "cli/testing/shell_words.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paceline {

std::vector<std::string> ShellWords(absl::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool within = false;
  char quote = 0;
  for (const char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      within = true;
    } else if (c == ' ') {
      if (within) words.push_back(word);
      word.clear();
      within = false;
    } else if (!within && absl::StrContains("#|&;<>", c)) {
      return words;
    } else {
      word += c;
      within = true;
    }
  }
  if (within) words.push_back(word);
  return words;
}

std::vector<std::string> PacelineLines(absl::string_view page) {
  std::vector<std::string> lines;
  bool fenced = false;
  bool text = false;
  bool goes_on = false;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "```")) {
      fenced = !fenced;
      text = fenced && absl::StartsWith(line, "```text");
      goes_on = false;
      continue;
    }
    if (!fenced || text) continue;
    absl::ConsumePrefix(&line, "$ ");
    if (goes_on) {
      absl::StrAppend(&lines.back(), line);
    } else if (absl::StartsWith(line, "paceline ")) {
      lines.emplace_back(line);
    } else {
      continue;
    }
    goes_on = absl::EndsWith(lines.back(), "\\");
    if (goes_on) lines.back().back() = ' ';
  }
  return lines;
}

std::vector<std::string> PacelineMentions(absl::string_view page) {
  std::vector<std::string> mentions;
  bool fenced = false;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "```")) fenced = !fenced;
    if (fenced) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, '`');
    // Every second part is between marks.
    for (size_t i = 1; i + 1 < parts.size(); i += 2) {
      if (absl::StartsWith(parts[i], "paceline ")) mentions.push_back(parts[i]);
    }
  }
  return mentions;
}

}  // namespace paceline
