#include "bench/stragglers/csv_cells.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace paceline::detect {
namespace {

// Strips spaces but not tabs, which may separate cells.
absl::string_view WithoutSpaces(absl::string_view text) {
  const size_t begin = text.find_first_not_of(" \r");
  if (begin == absl::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \r") - begin + 1);
}

// Position after the quote that closes the one at the beginning; npos if none does.
size_t EndOfQuotes(absl::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] != '"') continue;
    if (i + 1 == text.size() || text[i + 1] != '"') return i + 1;
    ++i;
  }
  return absl::string_view::npos;
}

}  // namespace

char SeparatorOf(absl::string_view line) {
  constexpr absl::string_view kSeparators = ",;\t";
  size_t counts[kSeparators.size()] = {};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    const size_t separator = kSeparators.find(c);
    if (!quoted && separator != absl::string_view::npos) ++counts[separator];
  }
  return kSeparators[static_cast<size_t>(std::max_element(counts, std::end(counts)) - counts)];
}

bool CsvCells::Cut(absl::string_view line, char separator) {
  cells_.clear();
  unquoted_.clear();
  for (size_t at = 0; at <= line.size();) {
    const absl::string_view rest = line.substr(at);
    const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
    size_t quotes = 0;
    if (begin < rest.size() && rest[begin] == '"') {
      quotes = EndOfQuotes(rest.substr(begin));
      if (quotes == absl::string_view::npos) return false;
    }
    const size_t end = std::min(rest.find(separator, begin + quotes), rest.size());
    if (quotes == 0) {
      cells_.push_back(WithoutSpaces(rest.substr(0, end)));
    } else {
      if (!WithoutSpaces(rest.substr(begin + quotes, end - begin - quotes)).empty()) return false;
      absl::string_view text = rest.substr(begin + 1, quotes - 2);
      if (text.find('"') != absl::string_view::npos) {
        text = unquoted_.emplace_back(absl::StrReplaceAll(text, {{"\"\"", "\""}}));
      }
      cells_.push_back(absl::StripAsciiWhitespace(text));
    }
    at += end + 1;
  }
  return true;
}

}  // namespace paceline::detect
