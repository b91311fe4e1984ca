// Which nodes a job may use: core's form of PlacementPolicy in proto/job_spec.proto, where each
// field is documented but `needs`, which follows from the rest of the spec.
#ifndef CONTROLLER_CORE_SCHEDULE_PLACEMENT_POLICY_H_
#define CONTROLLER_CORE_SCHEDULE_PLACEMENT_POLICY_H_

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/core/ids.h"

namespace paceline {

// Kinds of failure domains, the narrowest first: what nodes that are close to each other share.
enum class Span { kNode, kIsland, kRack, kAnywhere };

// "on one node", "in one island".
inline const char* DescribeSpan(Span span) {
  switch (span) {
    case Span::kNode:
      return "on one node";
    case Span::kIsland:
      return "in one island";
    case Span::kRack:
      return "in one rack";
    case Span::kAnywhere:
      break;
  }
  return "on any nodes";
}

enum class ReplicaPlacement { kPrefer, kRequire };

// What trainers have to know to train a job.
struct SpecNeeds {
  int version = 0;  // Least version of the job spec (common/version.h); 0: all know the job.
  std::set<std::string> features = {};  // What needs this version, for people: "outer steps".

  void Add(int least, const std::string& feature) {
    if (least < version) return;
    if (least > version) features.clear();
    version = least;
    features.insert(feature);
  }
  void Add(const SpecNeeds& others) {
    for (const std::string& feature : others.features) Add(others.version, feature);
  }

  friend bool operator==(const SpecNeeds& a, const SpecNeeds& b) {
    return a.version == b.version && a.features == b.features;
  }
};

struct PlacementPolicy {
  std::map<std::string, std::string> labels;
  std::vector<NodeName> nodes;  // Empty: all but those excluded.
  std::vector<NodeName> exclude_nodes;
  std::vector<std::string> tolerate;  // KEY or KEY=VALUE.
  std::string same;                   // A label; empty: none.
  int ranks_per_node = 0;             // Exactly so many on each; 0: as many as fit.
  ReplicaPlacement replica = ReplicaPlacement::kPrefer;
  SpecNeeds needs = {};

  friend bool operator==(const PlacementPolicy& a, const PlacementPolicy& b) {
    return std::tie(a.labels, a.nodes, a.exclude_nodes, a.tolerate, a.same, a.ranks_per_node,
                    a.replica, a.needs) == std::tie(b.labels, b.nodes, b.exclude_nodes, b.tolerate,
                                                    b.same, b.ranks_per_node, b.replica, b.needs);
  }
  template <typename H>
  friend H AbslHashValue(H hash, const PlacementPolicy& policy) {
    for (const auto* nodes : {&policy.nodes, &policy.exclude_nodes}) {
      for (const NodeName& node : *nodes) hash = H::combine(std::move(hash), node.value());
      hash = H::combine(std::move(hash), nodes->size());
    }
    return H::combine(std::move(hash), policy.labels, policy.tolerate, policy.same,
                      policy.ranks_per_node, policy.replica, policy.needs.version,
                      policy.needs.features);
  }
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_PLACEMENT_POLICY_H_
