#include "controller/discovery.h"

#include <nlohmann/json.hpp>

#include "common/core/loopback.h"

namespace paceline {

std::string DescribeTargets(const Cluster& cluster) {
  nlohmann::json targets = nlohmann::json::array();
  for (const auto& [name, node] : cluster.nodes()) {
    const std::string& address = node.facts.metrics_address;
    if (address.empty()) continue;
    nlohmann::json labels = {{"node", name.value()}, {"__meta_paceline_component", "worker"}};
    // Over a network the metrics are served by TLS only.
    if (!IsLoopback(address)) labels["__scheme__"] = "https";
    targets.push_back({{"targets", {address}}, {"labels", labels}});
  }
  return targets.dump();
}

}  // namespace paceline
