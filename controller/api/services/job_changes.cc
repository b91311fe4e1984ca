// Changes of a job: its labels, its ladder, its mode and profiles while it trains, cancelling it,
// and resuming it after its end.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/core/labels.h"
#include "common/job_spec/job_spec.h"
#include "common/log.h"
#include "controller/api/admission/caller.h"
#include "controller/api/services/find_job.h"
#include "controller/api/services/job_service.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/node_requests.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/job/plan.h"
#include "controller/core/job/profile.h"
#include "controller/core/recovery/restart.h"
#include "controller/wire/convert_plan.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

// Checks whether the job can follow a sound ladder.
std::vector<SpecProblem> CheckNewLadder(const v1::ChangeLadderRequest& request, const Job& job) {
  v1::JobSpec spec;
  spec.ParseFromString(job.request.spec);
  spec.mutable_strategy()->ParseFromString(job.plan.strategy);
  if (spec.strategy().has_local_sgd() && request.ladder_size() != 1) {
    return {{"ladder",
             "must be one level over all ranks, such as 8:all, as the job's strategy is "
             "local_sgd: submit it with hsgd for others"}};
  }
  return CheckLadderFits(request.ladder(), spec, "ladder");
}

// Applies the changes to the strategy of the job's newest plan.
v1::Strategy ChangedMode(v1::Strategy strategy, const v1::ChangeModeRequest& request) {
  v1::Slipstream* slipstream = strategy.mutable_slipstream();
  if (request.mode() != v1::SLIPSTREAM_UNSPECIFIED) {
    slipstream->set_mode(request.mode());
    if (request.mode() != v1::SLIPSTREAM_PAUSE) {
      strategy.set_optimizer_state(v1::OPTIMIZER_STATE_LOCAL);
    }
  }
  // Fields that are not given stay: MIN:MAX has no cap.
  if (request.has_window()) slipstream->mutable_window()->MergeFrom(request.window());
  if (request.optimizer_state() != v1::OPTIMIZER_STATE_UNSPECIFIED) {
    strategy.set_optimizer_state(request.optimizer_state());
  }
  return strategy;
}

PlanChanged ChangeTo(const JobId& id, const v1::Strategy& strategy) {
  const JobStrategy known = FromProto(strategy);
  return {id,
          {PlanVersion(), strategy.SerializeAsString(), known.ladder, known.slipstream,
           NeedsOf(strategy)}};
}

// Problems of the request's fields, with the spec's strategy changed by it.
std::vector<SpecProblem> CheckChange(const v1::ChangeModeRequest& request,
                                     const v1::JobSpec& spec) {
  if (request.mode() == v1::SLIPSTREAM_UNSPECIFIED && !request.has_window() &&
      request.optimizer_state() == v1::OPTIMIZER_STATE_UNSPECIFIED) {
    return {{"mode", "is missing; give a mode, a window or an optimizer_state"}};
  }
  std::vector<SpecProblem> problems;
  for (SpecProblem& problem : CheckJobSpec(spec)) {
    absl::string_view field = problem.field;
    if (!absl::ConsumePrefix(&field, "strategy.")) continue;
    absl::ConsumePrefix(&field, "slipstream.");
    problems.push_back({std::string(field), std::move(problem.message)});
  }
  return problems;
}

// Sets labels and description of `spec`, which is the job's. Returns the problems of the change.
std::vector<SpecProblem> Relabel(const Job& job, const v1::ChangeLabelsRequest& request,
                                 v1::JobSpec* spec) {
  if (request.labels().empty() && !request.has_description()) {
    return {{"labels", "are missing; give KEY=VALUE, KEY- or a description"}};
  }
  constexpr int kMostChanges = 2 * kMaxSpecLabels;
  if (request.labels_size() > kMostChanges) {
    return {{"labels",
             absl::StrCat("has ", request.labels_size(), " changes; allowed are ", kMostChanges)}};
  }
  const std::vector<std::string> changes(request.labels().begin(), request.labels().end());
  const absl::StatusOr<JobLabels> labels = Relabelled(job.request.labels, changes);
  if (!labels.ok()) return {{"labels", std::string(labels.status().message())}};
  spec->clear_labels();
  for (const auto& [key, value] : *labels) (*spec->mutable_labels())[key] = value;
  if (request.has_description()) spec->set_description(request.description());
  std::vector<SpecProblem> problems = CheckSpecSizes(*spec);
  return problems.empty() ? CheckLabels(*spec) : problems;
}

// Checks a path, since it becomes part of each trainer's plan.
grpc::Status CheckRequest(const v1::ResumeJobRequest& request) {
  if (!absl::StartsWith(request.from(), "/")) return grpc::Status::OK;
  return RequestError(CheckNodePath(request.from(), "from"));
}

// Drops drills for ranks and steps that the job no longer has; they would make its spec impossible.
void DropFaultsOutside(v1::JobSpec* spec) {
  auto* chaos = spec->mutable_chaos();
  chaos->erase(std::remove_if(chaos->begin(), chaos->end(),
                              [&](const v1::Fault& fault) {
                                return fault.rank() >= spec->ranks() ||
                                       fault.step() >= spec->steps();
                              }),
               chaos->end());
}

// Returns the job's spec as it trains now, with the changes applied.
v1::JobSpec ChangedSpec(const Job& job, const v1::ResumeJobRequest& request) {
  v1::JobSpec spec;
  spec.ParseFromString(job.request.spec);
  spec.mutable_strategy()->ParseFromString(job.plan.strategy);
  if (request.ranks() != 0) {
    // A minimum that stood for all ranks still does.
    if (spec.recovery().min_ranks() == spec.ranks()) spec.mutable_recovery()->clear_min_ranks();
    // So does a maximum, and no flag changes one that would be too small.
    if (const int most = spec.recovery().max_ranks(); most > 0) {
      const bool is_all = most == spec.ranks();
      spec.mutable_recovery()->set_max_ranks(is_all ? request.ranks()
                                                    : std::max<int>(most, request.ranks()));
    }
    spec.set_ranks(request.ranks());
  }
  if (request.batch_per_rank() != 0) spec.set_batch_per_rank(request.batch_per_rank());
  if (request.accumulation_steps() != 0) {
    spec.set_accumulation_steps(request.accumulation_steps());
  }
  if (request.keep_schedule() && spec.schedule().has_cosine()) {
    v1::CosineSchedule& cosine = *spec.mutable_schedule()->mutable_cosine();
    if (cosine.steps() == 0) cosine.set_steps(spec.steps());
  }
  if (request.steps() != 0) spec.set_steps(request.steps());
  if (!request.ladder().empty() && spec.strategy().has_hsgd()) {
    *spec.mutable_strategy()->mutable_hsgd()->mutable_ladder() = request.ladder();
  }
  DropFaultsOutside(&spec);
  FillDefaults(&spec);
  return spec;
}

// `start` is the checkpoint of this job that it would start from; null if it is another job's.
std::vector<SpecProblem> CheckResumption(const Job& job, const v1::ResumeJobRequest& request,
                                         const v1::JobSpec& spec, const Checkpoint* start) {
  std::vector<SpecProblem> problems = CheckJobSpec(spec);
  if (!request.ladder().empty() && !spec.strategy().has_hsgd()) {
    problems.push_back({"strategy.hsgd.ladder",
                        "is given, but the job's strategy is not hsgd; leave the ladder out"});
  }
  int64_t done = start != nullptr ? start->key.step : 0;
  // A new line of training drops the steps after its checkpoint.
  if (job.state == JobState::kSucceeded && request.from().empty()) {
    done = std::max(done, job.request.steps);
  }
  if (spec.steps() > 0 && spec.steps() <= done) {
    problems.push_back({"steps", absl::StrCat("is ", spec.steps(), ", and ", done,
                                              " are done; give more to go on")});
  }
  return problems;
}

}  // namespace

void JobService::DoChangeLadder(const Principal& caller, const v1::ChangeLadderRequest& request,
                                v1::Job* reply, Answer answer) {
  v1::ChangeLadderRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(),
       Fingerprint(absl::StrCat("ladder ", contents.SerializeAsString())), reply, answer,
       [&](const ControlLoop::RequestId& request_id) {
         const Job* job = nullptr;
         const grpc::Status found = Find(caller, request.job(), &job);
         if (!found.ok()) return answer(found);
         contents.DiscardUnknownFields();  // Unknown fields would be kept with the plan.
         FillLadder(contents.mutable_ladder());
         v1::Strategy strategy;
         strategy.ParseFromString(job->plan.strategy);
         std::vector<SpecProblem> problems =
             CheckLadder(contents.ladder(), job->request.ranks, job->request.shards, "ladder");
         if (problems.empty()) problems = CheckNewLadder(contents, *job);
         if (!problems.empty()) {
           return answer(FieldsError("LADDER_INVALID", "the ladder does not fit", problems));
         }
         const std::optional<Refusal> refusal = RefuseLadder(*job);
         if (refusal.has_value()) return answer(MakeError(*refusal));
         if (strategy.has_local_sgd()) {
           v1::LocalSgd& local_sgd = *strategy.mutable_local_sgd();
           local_sgd.set_period(contents.ladder(0).period());
           local_sgd.set_format(contents.ladder(0).format());
           local_sgd.clear_outer();
           if (contents.ladder(0).has_outer()) {
             *local_sgd.mutable_outer() = contents.ladder(0).outer();
           }
         } else {
           *strategy.mutable_hsgd()->mutable_ladder() = contents.ladder();
         }
         const JobId id = job->request.id;
         PACELINE_LOG(INFO) << "job_ladder job=" << id.value()
                            << " plan_version=" << job->plan.version.value() + 1;
         control_->ApplyRequest(request_id, id, ChangeTo(id, strategy), ReplyTo(id, reply, answer));
       });
}

void JobService::DoChangeLabels(const Principal& caller, const v1::ChangeLabelsRequest& request,
                                v1::Job* reply, Answer answer) {
  v1::ChangeLabelsRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(),
       Fingerprint(absl::StrCat("labels ", contents.SerializeAsString())), reply, answer,
       [&](const ControlLoop::RequestId& request_id) {
         const Job* job = nullptr;
         const grpc::Status found = Find(caller, request.job(), &job);
         if (!found.ok()) return answer(found);
         v1::JobSpec spec;
         spec.ParseFromString(job->request.spec);
         const std::vector<SpecProblem> problems = Relabel(*job, request, &spec);
         if (!problems.empty()) {
           return answer(FieldsError("LABELS_INVALID", "the job cannot be labelled so", problems));
         }
         const JobId id = job->request.id;
         const LabelsChanged event{id, spec.SerializeAsString(),
                                   JobLabels(spec.labels().begin(), spec.labels().end()),
                                   spec.description()};
         control_->ApplyRequest(request_id, id, event, ReplyTo(id, reply, answer));
       });
}

void JobService::DoChangeMode(const Principal& caller, const v1::ChangeModeRequest& request,
                              v1::Job* reply, Answer answer) {
  v1::ChangeModeRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(),
       Fingerprint(absl::StrCat("mode ", contents.SerializeAsString())), reply, answer,
       [&](const ControlLoop::RequestId& request_id) {
         const Job* job = nullptr;
         const grpc::Status found = Find(caller, request.job(), &job);
         if (!found.ok()) return answer(found);
         const std::optional<Refusal> refusal = RefuseMode(*job);
         if (refusal.has_value()) return answer(MakeError(*refusal));
         v1::Strategy strategy;
         strategy.ParseFromString(job->plan.strategy);
         v1::JobSpec spec;
         spec.ParseFromString(job->request.spec);
         contents.DiscardUnknownFields();  // Unknown fields would be kept with the plan.
         *spec.mutable_strategy() = ChangedMode(strategy, contents);
         FillDefaults(&spec);
         const std::vector<SpecProblem> problems = CheckChange(contents, spec);
         if (!problems.empty()) {
           return answer(FieldsError("MODE_INVALID", "the change cannot be", problems));
         }
         const JobId id = job->request.id;
         PACELINE_LOG(INFO) << "job_mode job=" << id.value()
                            << " plan_version=" << job->plan.version.value() + 1;
         control_->ApplyRequest(request_id, id, ChangeTo(id, spec.strategy()),
                                ReplyTo(id, reply, answer));
       });
}

void JobService::DoProfile(const Principal& caller, const v1::ProfileJobRequest& request,
                           v1::Job* reply, Answer answer) {
  v1::ProfileJobRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(),
       Fingerprint(absl::StrCat("profile ", contents.SerializeAsString())), reply, answer,
       [&](const ControlLoop::RequestId& request_id) {
         const Job* job = nullptr;
         const grpc::Status found = Find(caller, request.job(), &job);
         if (!found.ok()) return answer(found);
         const ProfileOrder order{
             request.steps(), {request.ranks().begin(), request.ranks().end()}, request.memory()};
         JobProfile profile;
         const std::optional<Refusal> refusal =
             MakeProfile(*job, order, ControlLoop::Now().wall, &profile);
         if (refusal.has_value()) return answer(MakeError(*refusal));
         const JobId id = job->request.id;
         PACELINE_LOG(INFO) << "job_profile job=" << id.value() << " profile=" << profile.id
                            << " first_step=" << profile.first_step << " steps=" << profile.steps;
         control_->ApplyRequest(request_id, id, ProfileOrdered{id, std::move(profile)},
                                ReplyTo(id, reply, answer));
       });
}

grpc::ServerUnaryReactor* JobService::ChangeLabels(grpc::CallbackServerContext* context,
                                                   const v1::ChangeLabelsRequest* request,
                                                   v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoChangeLabels(caller, *request, reply,
                   [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ChangeLadder(grpc::CallbackServerContext* context,
                                                   const v1::ChangeLadderRequest* request,
                                                   v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoChangeLadder(caller, *request, reply,
                   [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ChangeMode(grpc::CallbackServerContext* context,
                                                 const v1::ChangeModeRequest* request,
                                                 v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoChangeMode(caller, *request, reply,
                 [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobService::Profile(grpc::CallbackServerContext* context,
                                              const v1::ProfileJobRequest* request,
                                              v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoProfile(caller, *request, reply,
              [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

void JobService::DoCancel(const Principal& caller, const v1::CancelJobRequest& request,
                          v1::Job* reply, Answer answer) {
  if (!(request.grace_s() >= 0)) {
    return answer(MakeError(grpc::StatusCode::INVALID_ARGUMENT, "GRACE_INVALID",
                            "grace_s must not be negative"));
  }
  if (!request.reason().empty()) {
    const grpc::Status valid = RequestError(CheckReason(request.reason()));
    if (!valid.ok()) return answer(valid);
  }
  v1::CancelJobRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(), Fingerprint(contents.SerializeAsString()), reply, answer,
       [&](const ControlLoop::RequestId& request_id) {
         const Job* job = nullptr;
         const grpc::Status found = Find(caller, request.job(), &job);
         if (!found.ok()) return answer(found);
         const std::optional<Refusal> refusal = request.save() ? RefuseSave(*job) : std::nullopt;
         if (refusal.has_value()) return answer(MakeError(*refusal));
         const JobId id = job->request.id;
         const CancelRequested event{
             id, request.reason().empty() ? "cancelled by request" : request.reason(),
             request.grace_s() > 0 ? absl::Seconds(request.grace_s()) : StopGraceOf(job->request),
             request.save()};
         PACELINE_LOG(INFO) << "job_cancel job=" << id.value();
         control_->ApplyRequest(request_id, id, event, ReplyTo(id, reply, answer));
       });
}

grpc::ServerUnaryReactor* JobService::Cancel(grpc::CallbackServerContext* context,
                                             const v1::CancelJobRequest* request, v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoCancel(caller, *request, reply,
             [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::Status JobService::ResolveStart(const Principal& caller, std::string* from) const {
  if (from->empty()) return grpc::Status::OK;
  if (absl::StartsWith(*from, "/")) {
    while (from->size() > 1 && from->back() == '/') from->pop_back();
    return grpc::Status::OK;
  }
  NamedCheckpoint found;
  const grpc::Status status = FindStartCheckpoint(caller, control_->cluster(), *from, &found);
  if (status.ok()) *from = DirectoryOf(*found.job, *found.checkpoint);
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
         const Checkpoint* start =
             SavesCheckpoints(job->request)
                 ? FindByDirectory(*job, from.empty() ? ChooseStart(*job) : from)
                 : nullptr;
         const std::vector<SpecProblem> problems = CheckResumption(*job, request, spec, start);
         if (!problems.empty()) return answer(SpecError(problems));
         const JobId id = job->request.id;
         const ResumeRequested event{FromProto(id, spec), from};
         const std::optional<Refusal> unknown = control_->cluster().RefuseQueue(event.request);
         if (unknown.has_value()) return answer(MakeError(*unknown));
         const grpc::Status fits = CheckFits(event.request, spec);
         if (!fits.ok()) return answer(fits);
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
