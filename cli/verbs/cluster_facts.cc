#include "cli/verbs/cluster_facts.h"

#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;

}  // namespace

grpc::Status FetchActiveJobs(Program& program, std::vector<v1::Job>* jobs) {
  v1::ListJobsRequest request;
  request.set_page_size(kMostPerPage);
  for (const v1::JobState state :
       {v1::QUEUED, v1::STARTING, v1::RUNNING, v1::RECOVERING, v1::STOPPING}) {
    request.add_states(state);
  }
  do {
    v1::ListJobsResponse page;
    const grpc::Status status = program.client().ListJobs(request, &page);
    if (!status.ok()) return status;
    jobs->insert(jobs->end(), page.jobs().begin(), page.jobs().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

grpc::Status FetchAllNodes(Program& program, std::vector<v1::Node>* nodes) {
  v1::ListNodesRequest request;
  request.set_page_size(kMostPerPage);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = program.client().ListNodes(request, &page);
    if (!status.ok()) return status;
    nodes->insert(nodes->end(), page.nodes().begin(), page.nodes().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

grpc::Status FetchCluster(Program& program, ClusterFacts* facts) {
  facts->server = program.ServerText();
  grpc::Status status = FetchAllNodes(program, &facts->nodes);
  if (status.ok()) status = FetchActiveJobs(program, &facts->jobs);
  if (status.ok()) status = program.client().GetAutomationStatus({}, &facts->automation);
  return status;
}

}  // namespace paceline
