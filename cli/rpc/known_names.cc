#include "cli/rpc/known_names.h"

#include <set>

#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {

std::vector<std::string> JobNames(Client& client, int most) {
  v1::ListJobsRequest request;
  request.set_page_size(most);
  v1::ListJobsResponse jobs;
  std::vector<std::string> names;
  if (!client.ListJobs(request, &jobs).ok()) return names;
  std::set<std::string> seen;
  for (const v1::Job& job : jobs.jobs()) {
    if (seen.insert(job.spec().name()).second) names.push_back(job.spec().name());
  }
  for (const v1::Job& job : jobs.jobs()) names.push_back(job.id());
  return names;
}

std::vector<std::string> NodeNames(Client& client, int most) {
  v1::ListNodesRequest request;
  request.set_page_size(most);
  v1::ListNodesResponse nodes;
  std::vector<std::string> names;
  if (!client.ListNodes(request, &nodes).ok()) return names;
  for (const v1::Node& node : nodes.nodes()) names.push_back(node.name());
  return names;
}

}  // namespace paceline
