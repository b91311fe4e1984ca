#include "cli/rpc/known_names.h"

#include <set>

#include "cli/rpc/error_text.h"
#include "cli/text/nearest.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

// Only the newest, which people still have in mind.
constexpr int kJobsAsked = 200;
constexpr int kNodesAsked = 1000;

}  // namespace

std::vector<std::string> JobNames(Client& client, int most) {
  v1::ListJobsRequest request;
  request.set_page_size(most);
  v1::ListJobsResponse jobs;
  std::vector<std::string> names;
  if (!client.Call(methods::kJobList, request, &jobs).ok()) return names;
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
  if (!client.Call(methods::kNodeList, request, &nodes).ok()) return names;
  for (const v1::Node& node : nodes.nodes()) names.push_back(node.name());
  return names;
}

std::string MeantName(Client& client, const grpc::Status& status) {
  const std::string reason = ErrorReason(status);
  if (reason == "JOB_NOT_FOUND") {
    const std::string word = ErrorMetadata(status, "job");
    return word.empty() ? "" : Nearest(word, JobNames(client, kJobsAsked));
  }
  if (reason == "NODE_NOT_FOUND") {
    const std::string word = ErrorMetadata(status, "node");
    return word.empty() ? "" : Nearest(word, NodeNames(client, kNodesAsked));
  }
  return "";
}

}  // namespace paceline
