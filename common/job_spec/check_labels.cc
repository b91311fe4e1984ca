// What people call a job by, beside its name.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/core/labels.h"
#include "common/core/utf8_prefix.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

std::string Quoted(absl::string_view text) {
  return StrCat("\"", absl::Utf8SafeCHexEscape(Utf8Prefix(text, 80)), "\"");
}

void CheckDescription(const std::string& description, ProblemList& problems) {
  const auto unprintable = [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\n' && c != '\t';
  };
  if (description.size() > kMaxDescription) {
    problems.Add("description",
                 StrCat("has ", description.size(), " bytes; allowed are ", kMaxDescription));
  } else if (std::any_of(description.begin(), description.end(), unprintable)) {
    problems.Add("description", "has control characters; allowed are lines of text");
  }
}

}  // namespace

void CheckLabels(const v1::JobSpec& spec, ProblemList& problems) {
  if (spec.labels_size() > kMaxSpecLabels) {
    problems.Add("labels",
                 StrCat("has ", spec.labels_size(), " entries; allowed are ", kMaxSpecLabels));
    return;
  }
  // In the order of their keys; a map of protobuf has none.
  const JobLabels labels(spec.labels().begin(), spec.labels().end());
  for (const auto& [key, value] : labels) {
    if (!IsLabelKey(key)) {
      problems.Add("labels", StrCat("has the key ", Quoted(key), "; allowed are ", kLabelKeyRule));
    } else if (!IsLabelValue(value)) {
      problems.Add("labels", StrCat("has the value ", Quoted(value), " for ", key, "; allowed are ",
                                    kLabelValueRule));
    }
  }
  CheckDescription(spec.description(), problems);
}

std::vector<SpecProblem> CheckLabels(const v1::JobSpec& spec) {
  ProblemList problems;
  CheckLabels(spec, problems);
  return problems.Take();
}

}  // namespace paceline
