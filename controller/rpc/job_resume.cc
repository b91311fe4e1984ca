// Where jobs start from: an ended job's resumption, and the checkpoint that a new one names.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"
#include "common/log.h"
#include "controller/core/job_checkpoints.h"
#include "controller/core/restart.h"
#include "controller/rpc/caller.h"
#include "controller/rpc/convert.h"
#include "controller/rpc/errors.h"
#include "controller/rpc/find_job.h"
#include "controller/rpc/fingerprint.h"
#include "controller/rpc/job_service.h"
#include "controller/rpc/node_requests.h"

namespace paceline {
namespace {

// A path becomes a part of each trainer's plan.
grpc::Status CheckRequest(const v1::ResumeJobRequest& request) {
  if (!absl::StartsWith(request.from(), "/")) return grpc::Status::OK;
  return RequestError(CheckNodePath(request.from(), "from"));
}

// Drills for ranks and steps that the job has no more would make its spec impossible.
void DropFaultsOutside(v1::JobSpec* spec) {
  auto* chaos = spec->mutable_chaos();
  chaos->erase(std::remove_if(chaos->begin(), chaos->end(),
                              [&](const v1::Fault& fault) {
                                return fault.rank() >= spec->ranks() ||
                                       fault.step() >= spec->steps();
                              }),
               chaos->end());
}

// The job's spec as it trains now, with the changes.
v1::JobSpec ChangedSpec(const Job& job, const v1::ResumeJobRequest& request) {
  v1::JobSpec spec;
  spec.ParseFromString(job.request.spec);
  spec.mutable_strategy()->ParseFromString(job.plan.strategy);
  if (request.ranks() != 0) {
    // What stood for all ranks still does.
    if (spec.recovery().min_ranks() == spec.ranks()) spec.mutable_recovery()->clear_min_ranks();
    spec.set_ranks(request.ranks());
  }
  if (request.batch_per_rank() != 0) spec.set_batch_per_rank(request.batch_per_rank());
  if (request.accumulation_steps() != 0) {
    spec.set_accumulation_steps(request.accumulation_steps());
  }
  if (request.steps() != 0) spec.set_steps(request.steps());
  if (!request.ladder().empty() && spec.strategy().has_hsgd()) {
    *spec.mutable_strategy()->mutable_hsgd()->mutable_ladder() = request.ladder();
  }
  DropFaultsOutside(&spec);
  FillDefaults(&spec);
  return spec;
}

// `start` is the job's own checkpoint that it would start from; null if it is another's.
std::vector<SpecProblem> CheckResumption(const Job& job, const v1::ResumeJobRequest& request,
                                         const v1::JobSpec& spec, const Checkpoint* start) {
  std::vector<SpecProblem> problems = CheckJobSpec(spec);
  if (!request.ladder().empty() && !spec.strategy().has_hsgd()) {
    problems.push_back({"strategy.hsgd.ladder",
                        "is given, but the job's strategy is not hsgd; leave the ladder out"});
  }
  int64_t done = start != nullptr ? start->key.step : 0;
  if (job.state == JobState::kSucceeded) done = std::max(done, job.request.steps);
  if (spec.steps() > 0 && spec.steps() <= done) {
    problems.push_back({"steps", absl::StrCat("is ", spec.steps(), ", and ", done,
                                              " are done; give more to go on")});
  }
  return problems;
}

}  // namespace

grpc::Status JobService::ResolveStart(const Principal& caller, std::string* from) const {
  if (from->empty()) return grpc::Status::OK;
  if (absl::StartsWith(*from, "/")) {
    while (from->size() > 1 && from->back() == '/') from->pop_back();
    return grpc::Status::OK;
  }
  NamedCheckpoint found;
  const grpc::Status status = FindStartCheckpoint(caller, control_->cluster(), *from, &found);
  if (status.ok()) *from = DirectoryOf(*found.job, found.checkpoint->key);
  return status;
}

void JobService::DoResume(const Principal& caller, const v1::ResumeJobRequest& request,
                          v1::Job* reply, Answer answer) {
  const grpc::Status valid = CheckRequest(request);
  if (!valid.ok()) return answer(valid);
  v1::ResumeJobRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(),
       Fingerprint(absl::StrCat("resume ", contents.SerializeAsString())), reply, answer,
       [&](const ControlLoop::RequestId& request_id) {
         const Job* job = nullptr;
         const grpc::Status found = Find(caller, request.job(), &job);
         if (!found.ok()) return answer(found);
         const std::optional<Refusal> refusal = RefuseResume(*job, !request.from().empty());
         if (refusal.has_value()) return answer(MakeError(*refusal));
         const grpc::Status room = CheckOpenJobs(job->submitter);
         if (!room.ok()) return answer(room);
         std::string from = request.from();
         const grpc::Status resolved = ResolveStart(caller, &from);
         if (!resolved.ok()) return answer(resolved);
         const v1::JobSpec spec = ChangedSpec(*job, request);
         const Checkpoint* start = from.empty()                     ? NewestComplete(*job)
                                   : SavesCheckpoints(job->request) ? FindByDirectory(*job, from)
                                                                    : nullptr;
         const std::vector<SpecProblem> problems = CheckResumption(*job, request, spec, start);
         if (!problems.empty()) return answer(SpecError(problems));
         const JobId id = job->request.id;
         const ResumeRequested event{FromProto(id, spec), from};
         const std::optional<Refusal> unknown = control_->cluster().RefuseQueue(event.request);
         if (unknown.has_value()) return answer(MakeError(*unknown));
         const absl::Status fits = control_->cluster().CanEverFit(event.request);
         if (!fits.ok()) {
           return answer(MakeError(grpc::StatusCode::FAILED_PRECONDITION, "JOB_CANNOT_FIT",
                                   std::string(fits.message())));
         }
         PACELINE_LOG(INFO) << "job_resume job=" << id.value() << " from=" << from
                            << " ranks=" << spec.ranks();
         control_->ApplyRequest(request_id, id, event, ReplyTo(id, reply, answer));
       });
}

grpc::ServerUnaryReactor* JobService::Resume(grpc::CallbackServerContext* context,
                                             const v1::ResumeJobRequest* request, v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoResume(caller, *request, reply,
             [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

}  // namespace paceline
