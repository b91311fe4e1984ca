// What Prometheus is told of the workers of a cluster, at /sd: its HTTP service discovery.
#ifndef CONTROLLER_DISCOVERY_H_
#define CONTROLLER_DISCOVERY_H_

#include <string>

#include "controller/core/cluster/cluster.h"

namespace paceline {

// JSON: a list of targets with their labels, of the nodes that say where they tell their metrics.
std::string DescribeTargets(const Cluster& cluster);

}  // namespace paceline

#endif  // CONTROLLER_DISCOVERY_H_
