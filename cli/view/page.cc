#include "cli/view/page.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/text/sanitize.h"

namespace paceline {

void AddLine(std::string* page, absl::string_view label, absl::string_view value) {
  if (value.empty()) return;
  absl::StrAppend(page, absl::StrFormat("%-12s", absl::StrCat(label, ":")), value, "\n");
}

std::string Indented(absl::string_view text, absl::string_view margin) {
  std::string out;
  const std::string neutral = Sanitize(text);
  for (absl::string_view line : absl::StrSplit(neutral, '\n')) {
    absl::StrAppend(&out, margin, line, "\n");
  }
  while (absl::EndsWith(out, absl::StrCat("\n", margin, "\n")))
    out.resize(out.size() - margin.size() - 1);
  return out;
}

}  // namespace paceline
