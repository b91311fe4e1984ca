// Prometheus' HTTP service discovery at /sd: the workers of the cluster.
#ifndef CONTROLLER_DISCOVERY_H_
#define CONTROLLER_DISCOVERY_H_

#include <string>

#include "controller/core/cluster/cluster.h"

namespace paceline {

// Returns JSON: a list of targets with labels, for the nodes that have a metrics address.
std::string DescribeTargets(const Cluster& cluster);

}  // namespace paceline

#endif  // CONTROLLER_DISCOVERY_H_
