#include "common/job_spec/problem_list.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

void ProblemList::Add(std::string field, std::string message) {
  reported_.insert(field);
  problems_.push_back({std::move(field), std::move(message)});
}

bool ProblemList::CheckRange(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return true;
  Add(field, absl::StrCat("is ", value, "; allowed is ", low, " to ", high));
  return false;
}

bool ProblemList::Tells(absl::string_view field) const {
  return reported_.find(field) != reported_.end();
}

}  // namespace paceline
