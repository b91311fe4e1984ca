#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

constexpr int kLowestPriority = -1000;
constexpr int kHighestPriority = 1000;

// Names of queues are those of jobs.
void CheckQueue(const std::string& queue, ProblemList& problems) {
  bool sound = !queue.empty() && queue.size() <= 63 && absl::ascii_islower(queue[0]);
  for (const char c : queue) {
    sound = sound && (absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-');
  }
  if (sound) return;
  problems.Add("queue",
               "is no name of a queue; allowed are 1 to 63 lower-case letters, digits and hyphens, "
               "a letter first");
}

}  // namespace

void CheckPlacement(const v1::JobSpec& spec, ProblemList& problems) {
  CheckQueue(spec.queue(), problems);
  problems.CheckRange("priority", spec.priority(), kLowestPriority, kHighestPriority);
  const v1::PlacementPolicy& placement = spec.placement();
  for (const auto& [label, value] : placement.labels()) {
    if (label.empty()) problems.Add("placement.labels", "has a label without a name");
  }
  std::set<std::string> excluded;
  for (int i = 0; i < placement.exclude_nodes_size(); ++i) {
    const std::string& node = placement.exclude_nodes(i);
    if (node.empty()) problems.Add(StrCat("placement.exclude_nodes[", i, "]"), "is empty");
    excluded.insert(node);
  }
  for (int i = 0; i < placement.nodes_size(); ++i) {
    const std::string& node = placement.nodes(i);
    if (node.empty()) problems.Add(StrCat("placement.nodes[", i, "]"), "is empty");
    if (excluded.count(node) > 0) {
      problems.Add(StrCat("placement.nodes[", i, "]"),
                   StrCat("is ", node, ", which is in exclude_nodes too; give it in one of them"));
    }
  }
  for (int i = 0; i < placement.tolerate_size(); ++i) {
    const std::string& taint = placement.tolerate(i);
    const std::string field = StrCat("placement.tolerate[", i, "]");
    if (taint.empty() || taint[0] == '=') {
      problems.Add(field, "has no key; allowed is KEY or KEY=VALUE");
    } else if (absl::StartsWith(taint, "taint.")) {
      problems.Add(field, StrCat("is ", taint, "; leave out taint., which only labels have"));
    }
  }
}

}  // namespace paceline
