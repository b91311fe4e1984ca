#include "cli/rpc/meant_name.h"

#include "cli/rpc/error_text.h"
#include "cli/rpc/known_names.h"
#include "cli/text/nearest.h"

namespace paceline {
namespace {

// Of the newest: those that people still have in mind.
constexpr int kJobsAsked = 200;
constexpr int kNodesAsked = 1000;

}  // namespace

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
