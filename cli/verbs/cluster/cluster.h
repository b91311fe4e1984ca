// What verbs about the whole cluster ask the controller for; cluster.cc has `cluster status` and
// `queue list` beside it.
#ifndef CLI_VERBS_CLUSTER_CLUSTER_H_
#define CLI_VERBS_CLUSTER_CLUSTER_H_

#include <vector>

#include "cli/program.h"
#include "cli/view/node/cluster_page.h"
#include "grpcpp/support/status.h"

namespace paceline {

// All jobs that have not ended, newest first.
grpc::Status FetchActiveJobs(Program& program, std::vector<v1::Job>* jobs);

// By name.
grpc::Status FetchAllNodes(Program& program, std::vector<v1::Node>* nodes);

grpc::Status FetchCluster(Program& program, ClusterFacts* facts);

}  // namespace paceline

#endif  // CLI_VERBS_CLUSTER_CLUSTER_H_
