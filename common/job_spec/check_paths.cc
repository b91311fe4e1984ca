#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

constexpr size_t kMaxPathBytes = 4095;  // PATH_MAX of Linux, without its end.
constexpr size_t kShownBytes = 200;

bool GoesUp(absl::string_view path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == "..") return true;
  }
  return false;
}

// Nodes open it: the same file for all of them, below the folder that it names.
void CheckPath(const std::string& field, const std::string& path, ProblemList& problems) {
  std::string wrong;
  if (path.empty()) return;
  if (path.size() > kMaxPathBytes) {
    wrong = absl::StrCat("has ", path.size(), " bytes; allowed is at most ", kMaxPathBytes);
  } else if (!absl::StartsWith(path, "/")) {
    wrong = "is not absolute; give a path that begins with /";
  } else if (absl::StrContains(path, '\0') || GoesUp(path)) {
    wrong = "has a part \"..\" or a zero byte; give it without";
  }
  if (wrong.empty()) return;
  problems.Add(field, absl::StrCat("is \"", absl::CHexEscape(path.substr(0, kShownBytes)),
                                   "\", which ", wrong));
}

}  // namespace

std::vector<SpecProblem> CheckNodePath(const std::string& path, const std::string& field) {
  ProblemList problems;
  CheckPath(field, path, problems);
  return problems.Take();
}

void CheckPaths(const v1::JobSpec& spec, ProblemList& problems) {
  CheckPath("model.torchscript.file", spec.model().torchscript().file(), problems);
  CheckPath("data.train", spec.data().train(), problems);
  CheckPath("data.eval", spec.data().eval(), problems);
  CheckPath("init_from", spec.init_from(), problems);
  CheckPath("export_final", spec.export_final(), problems);
  CheckPath("checkpoint.directory", spec.checkpoint().directory(), problems);
  // Otherwise it names a checkpoint that the controller knows.
  if (absl::StartsWith(spec.resume_from(), "/")) {
    CheckPath("resume_from", spec.resume_from(), problems);
  }
}

}  // namespace paceline
