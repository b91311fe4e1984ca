#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/message_limits.h"
#include "common/job_spec/problem_list.h"

namespace paceline {

using absl::StrCat;

void CheckLimits(const v1::JobSpec& spec, ProblemList& problems) {
  const MessageLimits limits{kMaxSpecText, kMaxSpecItems, kMaxSpecLabels};
  for (SpecProblem& problem : CheckMessageLimits(spec, limits)) {
    problems.Add(std::move(problem.field), std::move(problem.message));
  }
  if (!problems.empty() || spec.ByteSizeLong() <= kMaxSpecBytes) return;
  problems.Add("spec", StrCat("has ", spec.ByteSizeLong(), " bytes; allowed are ", kMaxSpecBytes));
}

std::vector<SpecProblem> CheckSpecSizes(const v1::JobSpec& spec) {
  ProblemList problems;
  CheckLimits(spec, problems);
  return problems.Take();
}

}  // namespace paceline
