#include "common/job_spec/problem_list.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec/enum_name.h"

namespace paceline {

using absl::StrCat;

void ProblemList::Add(std::string field, std::string message) {
  problems_.push_back({std::move(field), std::move(message)});
}

bool ProblemList::CheckRange(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return true;
  Add(field, StrCat("is ", value, "; allowed is ", low, " to ", high));
  return false;
}

bool ProblemList::CheckAtLeast(const std::string& field, int64_t value, int64_t low) {
  if (value >= low) return true;
  Add(field, StrCat("is ", value, "; allowed is ", low, " and more"));
  return false;
}

bool ProblemList::CheckSize(const std::string& field, int64_t value) {
  return CheckRange(field, value, 1, INT32_MAX);
}

bool ProblemList::CheckFiniteAtLeast(const std::string& field, double value, double low) {
  if (std::isfinite(value) && value >= low) return true;
  Add(field, StrCat("is ", value, "; allowed is ", low, " and more"));
  return false;
}

bool ProblemList::CheckAbove(const std::string& field, double value, double low) {
  if (std::isfinite(value) && value > low) return true;
  Add(field, StrCat("is ", value, "; allowed is more than ", low));
  return false;
}

bool ProblemList::CheckShare(const std::string& field, double value, bool zero, bool one) {
  const bool inside = value > 0 && value < 1;
  if (inside || (zero && value == 0) || (one && value == 1)) return true;
  Add(field,
      StrCat("is ", value, "; allowed is ", zero ? "0 <= " : "0 < ", "x", one ? " <= 1" : " < 1"));
  return false;
}

bool ProblemList::CheckEnum(const std::string& field, int value,
                            const google::protobuf::EnumDescriptor& type) {
  if (type.FindValueByNumber(value) != nullptr) return true;
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(EnumName(type, type.value(i)->number()));
  }
  Add(field, StrCat("is the unknown number ", value, "; allowed is ", absl::StrJoin(names, ", ")));
  return false;
}

std::vector<SpecProblem> ProblemList::Take() { return std::exchange(problems_, {}); }

}  // namespace paceline
