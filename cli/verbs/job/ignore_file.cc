#include "cli/verbs/job/ignore_file.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paceline {

absl::StatusOr<IgnoreFile> IgnoreFile::Parse(absl::string_view text) {
  IgnoreFile file;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '!' || absl::StrContains(line, "**")) {
      return absl::InvalidArgumentError(
          absl::StrCat(".pacelineignore:", number, ": ", line,
                       ": ! and ** are not understood here; name what is left out, as in data/ or "
                       "*.pt"));
    }
    Pattern pattern;
    pattern.folders_only = absl::ConsumeSuffix(&line, "/");
    pattern.whole_path = absl::StrContains(line, '/');
    absl::ConsumePrefix(&line, "/");
    pattern.text = std::string(line);
    file.patterns_.push_back(std::move(pattern));
  }
  return file;
}

bool IgnoreFile::Excludes(const std::string& path, bool is_folder) const {
  const std::string name = path.substr(path.rfind('/') + 1);
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
    if (pattern.folders_only && !is_folder) return false;
    return ::fnmatch(pattern.text.c_str(), pattern.whole_path ? path.c_str() : name.c_str(),
                     FNM_PATHNAME) == 0;
  });
}

}  // namespace paceline
