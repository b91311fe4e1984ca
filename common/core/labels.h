// Labels of jobs, keys with values by which people sort them, and selectors that choose jobs by
// their labels. The rules are those of Kubernetes.
#ifndef COMMON_CORE_LABELS_H_
#define COMMON_CORE_LABELS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace paceline {

using JobLabels = std::map<std::string, std::string>;

// Whether the text may be a label's key: a name, or a prefix, a slash and a name
// ("example.com/team"). Both have 1 to 63 letters, digits, '-', '_' and '.', a letter or digit
// first and last.
bool IsLabelKey(absl::string_view text);
// Whether the text may be a label's value: such a name without a prefix, or empty.
bool IsLabelValue(absl::string_view text);

// What is allowed, for messages: "allowed are ...".
inline constexpr char kLabelKeyRule[] =
    "1 to 63 letters, digits, '-', '_' and '.', a letter or digit first and last, and before it "
    "such a prefix and a slash";
inline constexpr char kLabelValueRule[] =
    "up to 63 letters, digits, '-', '_' and '.', a letter or digit first and last";

// The labels with the changes made in their order: KEY=VALUE sets a label, KEY- removes one if it
// is there. InvalidArgument names the change that is wrong, and what is allowed.
absl::StatusOr<JobLabels> Relabelled(JobLabels labels, absl::Span<const std::string> changes);

// Conditions that all have to hold, separated by commas:
//
//   KEY=VALUE    the label has this value (KEY==VALUE is the same)
//   KEY!=VALUE   the label has another value, or is not there
//   KEY          the label is there
//   !KEY         the label is not there
//
// Thread-compatible.
class LabelSelector {
 public:
  // Of a selector; each is compared with the labels of each job.
  static constexpr size_t kMostConditions = 16;

  // Matches everything.
  LabelSelector() = default;

  // Reads a selector; spaces around its parts do not count. Empty text matches everything.
  // InvalidArgument names the condition that is wrong, and what is allowed.
  static absl::StatusOr<LabelSelector> Parse(absl::string_view text);

  bool Matches(const JobLabels& labels) const;

 private:
  enum class Kind { kEquals, kDiffers, kExists, kMissing };
  struct Condition {
    Kind kind;
    std::string key;
    std::string value;  // Of kEquals and kDiffers.
  };

  static absl::StatusOr<Condition> ParseCondition(absl::string_view text);
  static bool Holds(const Condition& condition, const JobLabels& labels);

  std::vector<Condition> conditions_;
};

}  // namespace paceline

#endif  // COMMON_CORE_LABELS_H_
