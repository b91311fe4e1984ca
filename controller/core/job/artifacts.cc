#include "controller/core/job/artifacts.h"

#include <tuple>

namespace paceline {
namespace {

// Whether its hash is known, or why there is none.
bool IsSettled(const Artifact& artifact) {
  return !artifact.sha256.empty() || !artifact.error.empty();
}

// In the order of this, so that two ranks that report one name do not take turns.
auto OrderOf(const Artifact& artifact) {
  return std::make_tuple(artifact.time, artifact.node, artifact.path, IsSettled(artifact));
}

}  // namespace

bool TakeArtifacts(JobArtifacts& known, Rank rank, const NodeName& node,
                   const std::vector<Artifact>& reported) {
  bool changed = false;
  for (Artifact artifact : reported) {
    artifact.rank = rank;
    artifact.node = node;
    const auto at = known.by_name.find(artifact.name);
    if (at == known.by_name.end()) {
      const bool fits = known.by_name.size() < kMostArtifacts;
      changed = changed || fits || !known.left_out;
      known.left_out = known.left_out || !fits;
      if (fits) known.by_name.emplace(artifact.name, artifact);
    } else if (OrderOf(at->second) < OrderOf(artifact)) {
      at->second = artifact;
      changed = true;
    }
  }
  return changed;
}

}  // namespace paceline
