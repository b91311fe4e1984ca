#include "controller/api/services/admin_service.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec/enum_name.h"
#include "common/log.h"
#include "common/log_level.h"
#include "controller/api/services/node_requests.h"
#include "controller/wire/errors.h"

namespace paceline {

grpc::Status AdminService::CheckNode(const std::string& node) const {
  if (node.empty() || control_->cluster().nodes().count(NodeName(node)) > 0) {
    return grpc::Status::OK;
  }
  return MakeError(grpc::StatusCode::NOT_FOUND, "NODE_NOT_FOUND",
                   absl::StrCat("no node is named \"", node, "\""), {{"node", node}});
}

void AdminService::Describe(const std::string& node, v1::LogLevelReply* reply) const {
  reply->set_level(node.empty() ? ToProto(CurrentLogLevel())
                                : control_->LogLevelOf(NodeName(node)));
}

grpc::Status AdminService::DoSet(const v1::SetLogLevelRequest& request) {
  std::vector<SpecProblem> problems = CheckOwner(request.owner(), /*person=*/true);
  if (request.request_id().empty()) problems.push_back({"request_id", "is required: a UUID"});
  if (!v1::LogLevel_IsValid(request.level())) problems.push_back({"level", "is no level"});
  grpc::Status status = RequestError(problems);
  if (status.ok()) status = CheckNode(request.node());
  if (!status.ok()) return status;
  const std::string of = request.node().empty() ? "" : absl::StrCat(" node=", request.node());
  PACELINE_LOG(INFO) << "log_level level="
                     << ShortEnumName(*v1::LogLevel_descriptor(), request.level()) << of
                     << " owner=" << request.owner();
  if (request.node().empty()) {
    paceline::SetLogLevel(FromProto(request.level(), own_level_));
  } else {
    control_->SetLogLevel(NodeName(request.node()), request.level());
  }
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* AdminService::GetLogLevel(grpc::CallbackServerContext* context,
                                                    const v1::GetLogLevelRequest* request,
                                                    v1::LogLevelReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=] {
    const grpc::Status status = CheckNode(request->node());
    if (status.ok()) Describe(request->node(), reply);
    reactor->Finish(status);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SetLogLevel(grpc::CallbackServerContext* context,
                                                    const v1::SetLogLevelRequest* request,
                                                    v1::LogLevelReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=] {
    const grpc::Status status = DoSet(*request);
    if (status.ok()) Describe(request->node(), reply);
    reactor->Finish(status);
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::BackupChunk>* AdminService::Backup(
    grpc::CallbackServerContext* context, const v1::BackupRequest*) {
  return backups_.Begin(context);
}

}  // namespace paceline
