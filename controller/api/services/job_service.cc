#include "controller/api/services/job_service.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/core/labels.h"
#include "common/job_spec/device_memory.h"
#include "common/job_spec/job_spec.h"
#include "common/log.h"
#include "common/uuid.h"
#include "controller/api/admission/caller.h"
#include "controller/api/services/find_job.h"
#include "controller/api/services/log_stream.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/node_requests.h"
#include "controller/api/services/paging.h"
#include "controller/core/stragglers/job/straggler_facts.h"
#include "controller/metrics/metrics.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_plan.h"
#include "controller/wire/convert_straggler.h"
#include "controller/wire/encoded_message.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

JobId NewJobId() { return JobId(absl::StrFormat("job-%012x", RandomBits() & 0xffffffffffff)); }

// Without TLS a caller may have any name, or none, so its jobs belong to nobody.
std::string SubmitterOf(const Principal& caller) {
  return IsPrincipalName(caller.name) ? caller.name : "";
}

grpc::Status CheckLogRequest(const Job& job, const v1::StreamLogsRequest& wanted) {
  const bool waits = wanted.follow() && wanted.follow_rank() && !job.ended_already();
  if (job.ranks.empty() && !wanted.has_trainer() && !waits) {
    return MakeError(
        grpc::StatusCode::FAILED_PRECONDITION, "JOB_NOT_STARTED",
        absl::StrCat("job ", job.request.id.value(), " has not started: ", job.reason));
  }
  // A reader that comes back may have started when the job had more ranks.
  const bool may_be_empty = wanted.has_trainer() || job.ranks.empty();
  const int ranks = may_be_empty ? job.request.ranks : static_cast<int>(job.ranks.size());
  if (wanted.rank() < 0 || wanted.rank() >= ranks) {
    return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "NO_SUCH_RANK",
                     absl::StrCat("job ", job.request.id.value(), " has ranks 0 to ", ranks - 1,
                                  ", not ", wanted.rank()));
  }
  return grpc::Status::OK;
}

grpc::Status CheckRequest(const v1::ApplyAdviceRequest& request) {
  std::vector<SpecProblem> problems = CheckOwner(request.by(), /*person=*/true);
  for (SpecProblem& problem : problems) problem.field = "by";
  return RequestError(problems);
}

// A drain also takes the node away from others' jobs.
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

void JobService::WakeWatchers() {
  for (auto* watcher : watchers_) watcher->Wake();
  WakeLogReaders();
}

void JobService::WakeLogReaders() {
  for (auto* stream : log_streams_) stream->Wake();
}

void JobService::CloseStreams(const grpc::Status& status) {
  for (auto* watcher : watchers_) watcher->Close(status);
  for (auto* stream : log_streams_) stream->Close(status);
}

grpc::Status JobService::Find(const Principal& caller, const std::string& reference,
                              const Job** job) const {
  return FindJob(caller, control_->cluster(), reference, job);
}

grpc::Status JobService::CheckOpenJobs(const std::string& submitter) const {
  const std::optional<Refusal> full = control_->cluster().RefuseOpenJob(submitter);
  if (!full.has_value()) return grpc::Status::OK;
  const bool own = full->reason == absl::string_view("TOO_MANY_OWN_JOBS");
  metrics_->limits().Refused(own ? Limit::kOpenJobsPerSubmitter : Limit::kOpenJobs);
  return MakeError(*full);
}

grpc::Status JobService::CheckFits(const JobRequest& job, const v1::JobSpec& spec) const {
  absl::Status fits = control_->cluster().CanEverFit(job);
  if (fits.ok()) {
    const std::optional<int64_t> memory = control_->cluster().LargestDeviceMemory(job);
    if (memory.has_value()) fits = CheckDeviceMemory(spec, *memory);
  }
  if (fits.ok() && job.recovery.copy_every_steps > 0) {
    const std::optional<int64_t> memory = control_->cluster().LargestHostMemory(job);
    if (memory.has_value()) fits = CheckCopyMemory(spec, *memory);
  }
  if (fits.ok()) return grpc::Status::OK;
  return MakeError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_CANNOT_FIT",
                   std::string(fits.message()));
}

CommitQueue::Then JobService::ReplyTo(const JobId& id, v1::Job* reply, const Answer& answer) {
  return mutations_.ReplyJob(id, reply, answer);
}

void JobService::Once(const Principal& caller, const std::string& request_id, uint64_t fingerprint,
                      v1::Job* reply, const Answer& answer,
                      const std::function<void(const ControlLoop::RequestId&)>& mutate) {
  mutations_.Once(
      request_id, fingerprint, answer,
      [&](const RequestLog::Entry& entry) {
        const grpc::Status repeat = CheckRepeat(caller, control_->cluster(), entry.job);
        if (!repeat.ok()) return answer(repeat);
        control_->WhenDurable(ReplyTo(entry.job, reply, answer));
      },
      mutate);
}

void JobService::DoSubmit(const Principal& caller, const v1::SubmitJobRequest& request,
                          v1::Job* reply, Answer answer) {
  v1::JobSpec spec = request.spec();
  FillDefaults(&spec);
  std::vector<SpecProblem> problems = CheckJobSpec(spec);
  const absl::Duration lease = control_->cluster().options().node_lease;
  if (problems.empty()) problems = CheckLease(spec, absl::ToDoubleSeconds(lease));
  if (!problems.empty()) return answer(SpecError(problems));
  const grpc::Status resolved = ResolveStart(caller, spec.mutable_resume_from());
  if (!resolved.ok()) return answer(resolved);
  const auto submit = [&](const ControlLoop::RequestId* request_id) {
    JobId id = NewJobId();
    while (control_->cluster().jobs().count(id) > 0) id = NewJobId();
    const JobRequest job = FromProto(id, spec);
    const std::optional<Refusal> refusal = control_->cluster().RefuseQueue(job);
    if (refusal.has_value()) return answer(MakeError(*refusal));
    if (!Includes(caller.role, Role::kOperator)) {
      const std::optional<Refusal> too_high = control_->cluster().RefusePriority(job);
      if (too_high.has_value()) return answer(MakeError(*too_high));
    }
    const grpc::Status fits = CheckFits(job, spec);
    if (!fits.ok()) return answer(fits);
    const grpc::Status room = CheckOpenJobs(SubmitterOf(caller));
    if (!room.ok()) return answer(room);
    // A request that only validates may come before the code.
    if (spec.has_code() && request_id != nullptr) {
      const grpc::Status sent = code_->CheckSent(SubmitterOf(caller), spec.code());
      if (!sent.ok()) return answer(sent);
    }
    if (request_id == nullptr) {
      *reply->mutable_spec() = spec;
      return answer(grpc::Status::OK);
    }
    PACELINE_LOG(INFO) << "job_submitted job=" << id.value() << " name=" << spec.name()
                       << " ranks=" << spec.ranks();
    control_->ApplyRequest(*request_id, id, JobSubmitted{job, SubmitterOf(caller)},
                           ReplyTo(id, reply, answer));
  };
  if (request.validate_only()) return submit(nullptr);
  Once(caller, request.request_id(), Fingerprint(StableBytes(request.spec())), reply, answer,
       [&](const ControlLoop::RequestId& request_id) { submit(&request_id); });
}

grpc::ServerUnaryReactor* JobService::Submit(grpc::CallbackServerContext* context,
                                             const v1::SubmitJobRequest* request, v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  // Keeps specs that are too large from the loop.
  const std::vector<SpecProblem> sizes = CheckSpecSizes(request->spec());
  if (!sizes.empty()) {
    if (request->spec().ByteSizeLong() > kMaxSpecBytes) {
      metrics_->limits().Refused(Limit::kJobSize);
    }
    reactor->Finish(SpecError(sizes));
    return reactor;
  }
  loop_->Post([=, caller = CallerOf(*context)] {
    DoSubmit(caller, *request, reply,
             [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::UploadCode(grpc::CallbackServerContext* context,
                                                 const v1::UploadCodeRequest* request,
                                                 v1::UploadCodeResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  const std::vector<SpecProblem> problems = CheckCode(request->code());
  if (!problems.empty()) {
    reactor->Finish(FieldsError("CODE_INVALID", "this cannot be code", problems));
    return reactor;
  }
  loop_->Post([=, caller = CallerOf(*context)] {
    code_->Receive(SubmitterOf(caller), *request, reply, [this, reactor](grpc::Status status) {
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
        metrics_->limits().Refused(Limit::kCode);
      }
      reactor->Finish(std::move(status));
    });
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::Get(grpc::CallbackServerContext* context,
                                          const v1::GetJobRequest* request, v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    const Job* job = nullptr;
    const grpc::Status found = Find(caller, request->job(), &job);
    if (found.ok()) {
      *reply = control_->Describe(*job);
      limits_->Charge(caller, reply->ranks_size(), EventLoop::Now());
    }
    reactor->Finish(found);
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::List(grpc::CallbackServerContext* context,
                                           const v1::ListJobsRequest* request,
                                           v1::ListJobsResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    int size = 0;
    const grpc::Status page = CheckPageSize(request->page_size(), &size);
    if (!page.ok()) return reactor->Finish(page);
    // The token is the number of the last job shown; newer jobs have greater numbers.
    int64_t before = INT64_MAX;
    if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &before)) {
      return reactor->Finish(BadPageToken(request->page_token()));
    }
    const absl::StatusOr<LabelSelector> labels = LabelSelector::Parse(request->label_selector());
    if (!labels.ok()) {
      return reactor->Finish(MakeError(grpc::StatusCode::INVALID_ARGUMENT, "SELECTOR_INVALID",
                                       std::string(labels.status().message())));
    }
    // A set, since it is looked up for each job, and the request may list any number of states.
    const std::set<int> states(request->states().begin(), request->states().end());
    const auto wanted = [=](const Job& job) {
      return job.number < before && MaySee(caller, job.submitter) &&
             (states.empty() || states.count(ToProto(job.state)) > 0) &&
             labels->Matches(job.request.labels);
    };
    JobPage jobs = PageOf(control_->cluster().jobs(), wanted, size);
    if (jobs.next_before > 0) reply->set_next_page_token(absl::StrCat(jobs.next_before));
    reply->set_revision(control_->job_log().revision());
    const auto add = [=](const JobId& id) {
      const Job* job = control_->cluster().FindJob(id);
      if (job == nullptr || !wanted(*job)) return 1;
      *reply->add_jobs() = control_->Describe(*job);
      return 1 + static_cast<int>(job->ranks.size());
    };
    lists_->Make<JobId>(caller, std::move(jobs.jobs), add, reactor);
  });
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* JobService::Watch(grpc::CallbackServerContext* context,
                                                              const grpc::ByteBuffer* encoded) {
  v1::WatchJobsRequest request;
  const grpc::Status decoded = DecodeRequest(*encoded, &request);
  const auto wanted = [id = request.job_id(), caller = CallerOf(*context)](const WatchKey& key) {
    return (id.empty() || key.id == id) && MaySee(caller, key.submitter);
  };
  const auto next = [this, wanted](const std::string& id) -> std::optional<Watcher::Present> {
    const auto& jobs = control_->cluster().jobs();
    for (auto job = jobs.upper_bound(JobId(id)); job != jobs.end(); ++job) {
      if (!wanted({job->first.value(), job->second.submitter})) continue;
      Watcher::Present present{job->first.value(), v1::JobEvent()};
      *present.event.mutable_job() = control_->Describe(job->second);
      return present;
    }
    return std::nullopt;
  };
  auto* stream = new Watcher(loop_, sender_, limits_->OpenStream(context, request),
                             &control_->job_log(), &watchers_, wanted, &metrics_->job_watches());
  loop_->Post([stream, decoded, next, after = request.after_revision()] {
    if (!stream->Admit()) return;
    decoded.ok() ? stream->Begin(after, next) : stream->Close(decoded);
  });
  return stream;
}

grpc::ServerWriteReactor<v1::LogChunk>* JobService::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) {
  auto* stream = new LogStream(loop_, sender_, limits_->OpenStream(context, *request), control_,
                               workers_, &log_streams_);
  loop_->Post([=, wanted = *request, caller = CallerOf(*context)] {
    if (!stream->Admit()) return;
    const Job* job = nullptr;
    grpc::Status refusal = Find(caller, wanted.job(), &job);
    if (refusal.ok()) refusal = CheckLogRequest(*job, wanted);
    refusal.ok() ? stream->Begin(*job, wanted) : stream->Fail(refusal);
  });
  return stream;
}

grpc::ServerUnaryReactor* JobService::Why(grpc::CallbackServerContext* context,
                                          const v1::WhyRequest* request, v1::WhyResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    const Job* job = nullptr;
    const grpc::Status found = Find(caller, request->job(), &job);
    if (found.ok()) {
      for (std::string& obstacle : control_->cluster().Why(*job, absl::Now())) {
        reply->add_obstacles(std::move(obstacle));
      }
    }
    reactor->Finish(found);
  });
  return reactor;
}

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
