// What is known of a job's stragglers, what is advised, and what was decided about them.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "controller/core/stragglers/job/straggler_facts.h"
#include "controller/rpc/caller.h"
#include "controller/rpc/convert_straggler.h"
#include "controller/rpc/errors.h"
#include "controller/rpc/find_job.h"
#include "controller/rpc/fingerprint.h"
#include "controller/rpc/job_service.h"
#include "controller/rpc/node_requests.h"

namespace paceline {
namespace {

grpc::Status CheckRequest(const v1::ApplyAdviceRequest& request) {
  std::vector<SpecProblem> problems = CheckOwner(request.by(), /*person=*/true);
  for (SpecProblem& problem : problems) problem.field = "by";
  return RequestError(problems);
}

// A drain takes the node from others' jobs too.
grpc::Status CheckMayApply(const Principal& caller, const Stragglers& stragglers, const JobId& job,
                           int64_t id) {
  const JobStragglers* known = stragglers.Find(job);
  const RemedyDecision* decision = known == nullptr ? nullptr : known->policy().Find(id);
  if (decision == nullptr || decision->kind != RemedyKind::kDrain ||
      Includes(caller.role, Role::kOperator)) {
    return grpc::Status::OK;
  }
  return MakeError(grpc::StatusCode::PERMISSION_DENIED, "OPERATOR_NEEDED",
                   absl::StrCat("advice ", id, " drains node ", decision->node.value(),
                                ", which needs the role operator: ask somebody who has it"));
}

grpc::Status Describe(const Stragglers& stragglers, const JobId& job, int64_t id,
                      v1::RemedyDecision* reply) {
  const JobStragglers* known = stragglers.Find(job);
  const RemedyDecision* decision = known == nullptr ? nullptr : known->policy().Find(id);
  if (decision == nullptr) {
    return MakeError(grpc::StatusCode::NOT_FOUND, "ADVICE_NOT_FOUND",
                     absl::StrCat("decision ", id, " of job ", job.value(), " is no longer kept"));
  }
  *reply = ToProto(*decision);
  return grpc::Status::OK;
}

}  // namespace

void JobService::DoApplyAdvice(const Principal& caller, const v1::ApplyAdviceRequest& request,
                               v1::RemedyDecision* reply, Answer answer) {
  const grpc::Status valid = CheckRequest(request);
  if (!valid.ok()) return answer(valid);
  v1::ApplyAdviceRequest contents = request;
  contents.clear_request_id();
  const int64_t advice = request.advice();
  const auto reply_to = [this, advice, reply, &answer](const JobId& job) {
    return mutations_.Reply(answer, [this, job, advice, reply] {
      return paceline::Describe(control_->stragglers(), job, advice, reply);
    });
  };
  mutations_.Once(
      request.request_id(),
      Fingerprint(absl::StrCat("apply_advice ", contents.SerializeAsString())), answer,
      [&](const RequestLog::Entry& entry) {
        const grpc::Status repeat = CheckRepeat(caller, control_->cluster(), entry.job);
        if (!repeat.ok()) return answer(repeat);
        control_->WhenDurable(reply_to(entry.job));
      },
      [&](const ControlLoop::RequestId& request_id) {
        const Job* job = nullptr;
        const grpc::Status found = Find(caller, request.job(), &job);
        if (!found.ok()) return answer(found);
        const JobId id = job->request.id;
        const grpc::Status allowed = CheckMayApply(caller, control_->stragglers(), id, advice);
        if (!allowed.ok()) return answer(allowed);
        const std::optional<Refusal> refusal = control_->RefuseAdvice(id, advice);
        if (refusal.has_value()) return answer(MakeError(*refusal));
        PACELINE_LOG(INFO) << "advice_applied job=" << id.value() << " advice=" << advice
                           << " by=" << request.by();
        control_->ApplyAdvice(request_id, id, advice, request.by(), reply_to(id));
      });
}

grpc::ServerUnaryReactor* JobService::Advise(grpc::CallbackServerContext* context,
                                             const v1::AdviseRequest* request,
                                             v1::JobAdvice* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    const Job* job = nullptr;
    const grpc::Status found = Find(caller, request->job(), &job);
    if (found.ok()) {
      *reply =
          ToProto(ViewJob(control_->cluster(), *job), control_->stragglers().Find(job->request.id));
    }
    reactor->Finish(found);
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ApplyAdvice(grpc::CallbackServerContext* context,
                                                  const v1::ApplyAdviceRequest* request,
                                                  v1::RemedyDecision* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoApplyAdvice(caller, *request, reply,
                  [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ListDecisions(grpc::CallbackServerContext* context,
                                                    const v1::ListDecisionsRequest* request,
                                                    v1::ListDecisionsResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    const Job* job = nullptr;
    const grpc::Status found = Find(caller, request->job(), &job);
    const JobStragglers* known =
        found.ok() ? control_->stragglers().Find(job->request.id) : nullptr;
    if (known != nullptr) {
      for (const RemedyDecision& decision : known->policy().decisions()) {
        *reply->add_decisions() = ToProto(decision);
      }
    }
    reactor->Finish(found);
  });
  return reactor;
}

}  // namespace paceline
