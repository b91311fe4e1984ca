// Prints the tables of docs/job-file.md, made of the table of keys, as Markdown: the keys of the
// file itself, then those of each group under a heading of its own. `make docs` writes them there.
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/job_file/job_keys.h"

namespace paceline {
namespace {

std::string Code(const std::string& text) {
  return text.empty() ? "" : absl::StrCat("`", text, "`");
}

// "chaos" of "chaos[].rank"; empty for a key of the file itself.
std::string GroupOf(absl::string_view path) {
  const size_t dot = path.find('.');
  if (dot == absl::string_view::npos) return "";
  return std::string(absl::StripSuffix(path.substr(0, dot), "[]"));
}

bool IsGroup(const JobKey& key) {
  return key.type == KeyType::kGroup || key.type == KeyType::kGroups;
}

std::string Row(const JobKey& key) {
  const std::string fallback = key.fallback;
  const bool words =
      fallback == "required" || fallback == "none" || absl::StrContains(fallback, ' ');
  const std::string unit = key.unit;
  const bool has_table = IsGroup(key) && GroupOf(key.path).empty();
  const std::string type =
      has_table ? absl::StrCat("[", TypeName(key.type), "](#", key.path, ")") : TypeName(key.type);
  return absl::StrCat("| `", key.path, "` | ", type, unit.empty() ? "" : ", in ", unit, " | ",
                      words ? fallback : Code(fallback), " | ", key.allowed, " | ",
                      Code(key.example), " | ", key.doc, " |\n");
}

void PrintTable(const std::string& group) {
  std::cout << "| Key | Type | Default | Allowed | Example | Meaning |\n"
               "| --- | --- | --- | --- | --- | --- |\n";
  for (const JobKey& key : JobKeys()) {
    if (GroupOf(key.path) == group) std::cout << Row(key);
  }
}

}  // namespace
}  // namespace paceline

int main() {
  using namespace paceline;
  PrintTable("");
  for (const JobKey& key : JobKeys()) {
    if (!IsGroup(key) || !GroupOf(key.path).empty()) continue;
    std::cout << "\n### " << key.path << "\n\n" << key.doc << "\n\n";
    PrintTable(key.path);
  }
}
