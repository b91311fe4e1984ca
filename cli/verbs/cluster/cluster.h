// Requests of verbs about the whole cluster; cluster.cc also has `cluster status` and `queue list`.
#ifndef CLI_VERBS_CLUSTER_CLUSTER_H_
#define CLI_VERBS_CLUSTER_CLUSTER_H_

#include <vector>

#include "cli/program.h"
#include "cli/view/node/cluster_page.h"
#include "grpcpp/support/status.h"

namespace paceline {

// Fetches all jobs that have not ended, newest first.
grpc::Status FetchActiveJobs(Program& program, std::vector<v1::Job>* jobs);

// Fetches all nodes, by name.
grpc::Status FetchAllNodes(Program& program, std::vector<v1::Node>* nodes);

grpc::Status FetchCluster(Program& program, ClusterFacts* facts);

}  // namespace paceline

#endif  // CLI_VERBS_CLUSTER_CLUSTER_H_
