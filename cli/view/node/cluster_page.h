// A cluster at a glance: its size, what trains, and what needs attention.
#ifndef CLI_VIEW_NODE_CLUSTER_PAGE_H_
#define CLI_VIEW_NODE_CLUSTER_PAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/view/page.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {

struct ClusterFacts {
  std::string server;  // In the form for people.
  std::vector<v1::Node> nodes;
  std::vector<v1::Job> jobs;  // Only those that have not ended.
  v1::AutomationStatus automation;
};

struct ClusterCounts {
  std::map<std::string, int> nodes;  // By state.
  std::map<std::string, int> jobs;   // By state.
  int64_t slots = 0;
  int64_t slots_used = 0;
  int64_t gpus = 0;
  int64_t gpus_used = 0;
  int64_t ranks = 0;  // Ranks of placed jobs.
};

ClusterCounts CountsOf(const ClusterFacts& facts);

// A sentence per problem that a person should look at, the worst first: nodes that do not answer, a
// paused automation, jobs that recover or wait, nodes that take no ranks. Empty: no problems.
std::vector<std::string> AttentionOf(const ClusterFacts& facts, absl::Time now);

// Counts and attention, for people and as JSON.
std::string ClusterPage(const ClusterFacts& facts, absl::Time now, const PageStyle& style);
std::string ClusterJson(const ClusterFacts& facts, absl::Time now);

}  // namespace paceline

#endif  // CLI_VIEW_NODE_CLUSTER_PAGE_H_
