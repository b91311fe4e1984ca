#include "controller/api/services/automation_service.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/node_requests.h"
#include "controller/core/node/automation.h"
#include "controller/wire/convert_node.h"

namespace paceline {

void AutomationService::Describe(v1::AutomationStatus* reply) const {
  const Cluster& cluster = control_->cluster();
  *reply = ToProto(cluster.automation());
  reply->set_max_share(cluster.options().max_out_share);
  for (const NodeName& node : DrainedByAutomation(cluster.nodes())) {
    reply->add_draining(node.value());
  }
}

void AutomationService::Apply(const std::string& request_id, uint64_t fingerprint,
                              const Event& event, v1::AutomationStatus* reply,
                              const Mutations::Answer& answer) {
  const CommitQueue::Then then = mutations_.Reply(answer, [this, reply] {
    Describe(reply);
    return grpc::Status::OK;
  });
  mutations_.Once(
      request_id, fingerprint, answer,
      [&](const RequestLog::Entry&) { control_->WhenDurable(then); },
      [&](const ControlLoop::RequestId& id) { control_->ApplyRequest(id, JobId(), event, then); });
}

grpc::ServerUnaryReactor* AutomationService::GetStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetAutomationStatusRequest*,
                                                       v1::AutomationStatus* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=] {
    Describe(reply);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AutomationService::Pause(grpc::CallbackServerContext* context,
                                                   const v1::PauseAutomationRequest* request,
                                                   v1::AutomationStatus* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=] {
    std::vector<SpecProblem> problems = CheckOwner(request->owner(), /*person=*/true);
    for (SpecProblem& problem : CheckReason(request->reason())) problems.push_back(problem);
    const grpc::Status valid = RequestError(problems);
    if (!valid.ok()) return reactor->Finish(valid);
    PACELINE_LOG(INFO) << "automation_pause owner=" << request->owner();
    Apply(request->request_id(),
          Fingerprint(absl::StrCat("pause ", request->owner(), " ", request->reason())),
          AutomationPauseRequested{request->owner(), request->reason()}, reply,
          [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* AutomationService::Resume(grpc::CallbackServerContext* context,
                                                    const v1::ResumeAutomationRequest* request,
                                                    v1::AutomationStatus* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=] {
    const grpc::Status valid = RequestError(CheckOwner(request->owner(), /*person=*/true));
    if (!valid.ok()) return reactor->Finish(valid);
    PACELINE_LOG(INFO) << "automation_resume owner=" << request->owner();
    Apply(request->request_id(), Fingerprint(absl::StrCat("resume automation ", request->owner())),
          AutomationResumeRequested{request->owner()}, reply,
          [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

}  // namespace paceline
