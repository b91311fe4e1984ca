#include "controller/discovery.h"

#include <nlohmann/json.hpp>
#include <utility>

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

void Discovery::Update() {
  std::string targets = DescribeTargets(*cluster_);
  absl::MutexLock lock(&mutex_);
  targets_ = std::move(targets);
}

void Discovery::UpdateSoon() {
  if (std::exchange(is_old_, true)) return;
  loop_->Post([this] {
    is_old_ = false;
    Update();
  });
}

std::string Discovery::targets() const {
  absl::MutexLock lock(&mutex_);
  return targets_;
}

}  // namespace paceline
