// Where a job runs, and what it opens there.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;

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

constexpr size_t kMaxPathBytes = 4095;  // PATH_MAX of Linux, without its end.
constexpr size_t kShownBytes = 200;

// A rank that is replaced would come to whichever node has room.
void CheckRanksPerNode(const v1::JobSpec& spec, ProblemList& problems) {
  const std::string field = "placement.ranks_per_node";
  const int per_node = spec.placement().ranks_per_node();
  if (per_node == 0 || problems.Tells(field)) return;
  if (spec.ranks() % per_node != 0) {
    problems.Add(field, StrCat("is ", per_node, ", which does not divide ranks, ", spec.ranks()));
  }
  const int shards = spec.shards();
  if (shards > 1 && shards % per_node != 0 && per_node % shards != 0) {
    problems.Add(field, StrCat("is ", per_node, ", and shards ", shards,
                               ": one has to be a multiple of the other, so that nodes hold whole "
                               "replicas or replicas whole nodes"));
  }
  if (spec.recovery().max_failures() > 0) {
    problems.Add(field,
                 "does not go with recovery.max_failures: a rank that is replaced comes to any "
                 "node that has room; leave one of them out");
  }
}

bool GoesUp(absl::string_view path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == "..") return true;
  }
  return false;
}

}  // namespace

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

void CheckPlacement(const v1::JobSpec& spec, ProblemList& problems) {
  CheckQueue(spec.queue(), problems);
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
  CheckRanksPerNode(spec, problems);
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

std::vector<SpecProblem> CheckNodePath(const std::string& path, const std::string& field) {
  ProblemList problems;
  CheckPath(field, path, problems);
  return problems.Take();
}

}  // namespace paceline
