#include "controller/api/services/checkpoint_service.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/job_spec/job_spec.h"
#include "common/log.h"
#include "controller/api/admission/caller.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/node_requests.h"
#include "controller/api/services/paging.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/wire/convert_checkpoint.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

// Checkpoints that can be sorted in the time that describing one part takes (call_limits.h).
constexpr size_t kSortedOfPart = 10;

// Sort key of a list, newest first: time, number of the job, generation, step. A page token is the
// key of the page's last checkpoint.
using Age = std::array<int64_t, 4>;

Age AgeOf(const Job& job, const Checkpoint& checkpoint) {
  return {absl::ToUnixNanos(checkpoint.created), job.number, checkpoint.key.generation,
          checkpoint.key.step};
}

std::optional<Age> ParseToken(const std::string& token) {
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  Age age{};
  if (parts.size() != age.size()) return std::nullopt;
  for (size_t i = 0; i < age.size(); ++i) {
    if (!absl::SimpleAtoi(parts[i], &age[i])) return std::nullopt;
  }
  return age;
}

}  // namespace

CommitQueue::Then CheckpointService::ReplyTo(const JobId& id, const CheckpointKey& key,
                                             v1::Checkpoint* reply, const Answer& answer) {
  return mutations_.Reply(answer, [this, id, key, reply] {
    const auto job = control_->cluster().jobs().find(id);
    const Checkpoint* checkpoint =
        job == control_->cluster().jobs().end() ? nullptr : FindCheckpoint(job->second, key);
    if (checkpoint != nullptr) {
      *reply = ToProto(job->second, *checkpoint);
    } else {  // It was removed meanwhile.
      reply->set_job_id(id.value());
      reply->set_step(key.step);
      reply->set_generation(key.generation);
      reply->set_state(v1::CHECKPOINT_DELETING);
    }
    return grpc::Status::OK;
  });
}

void CheckpointService::Once(
    const Principal& caller, const std::string& request_id, uint64_t fingerprint,
    const std::string& name, v1::Checkpoint* reply, const Answer& answer,
    const std::function<void(const ControlLoop::RequestId&, const NamedCheckpoint&)>& mutate) {
  mutations_.Once(
      request_id, fingerprint, answer,
      [&](const RequestLog::Entry& entry) {
        const grpc::Status repeat = CheckRepeat(caller, control_->cluster(), entry.job);
        if (!repeat.ok()) return answer(repeat);
        control_->WhenDurable(ReplyTo(entry.job, entry.checkpoint, reply, answer));
      },
      [&](ControlLoop::RequestId new_id) {
        NamedCheckpoint named;
        const grpc::Status found = FindCheckpointByName(caller, control_->cluster(), name, &named);
        if (!found.ok()) return answer(found);
        new_id.checkpoint = named.checkpoint->key;
        mutate(new_id, named);
      });
}

void CheckpointService::DoSave(const Principal& caller, const v1::SaveCheckpointRequest& request,
                               v1::Job* reply, const Answer& answer) {
  v1::SaveCheckpointRequest contents = request;
  contents.clear_request_id();
  mutations_.Once(
      request.request_id(), Fingerprint(absl::StrCat("save ", contents.SerializeAsString())),
      answer,
      [&](const RequestLog::Entry& entry) {
        const grpc::Status repeat = CheckRepeat(caller, control_->cluster(), entry.job);
        if (!repeat.ok()) return answer(repeat);
        control_->WhenDurable(mutations_.ReplyJob(entry.job, reply, answer));
      },
      [&](const ControlLoop::RequestId& request_id) {
        const Job* job = nullptr;
        const grpc::Status found = FindJob(caller, control_->cluster(), request.job(), &job);
        if (!found.ok()) return answer(found);
        const std::optional<Refusal> refusal = RefuseSave(*job);
        if (refusal.has_value()) return answer(MakeError(*refusal));
        const grpc::Status valid = RequestError(CheckNodePath(request.directory(), "directory"));
        if (!valid.ok()) return answer(valid);
        const JobId id = job->request.id;
        PACELINE_LOG(INFO) << "checkpoint_save job=" << id.value() << " now=" << request.now()
                           << " directory=" << absl::CEscape(request.directory());
        control_->ApplyRequest(request_id, id,
                               SaveRequested{id, request.now(), request.directory()},
                               mutations_.ReplyJob(id, reply, answer));
      });
}

void CheckpointService::DoDelete(const Principal& caller,
                                 const v1::DeleteCheckpointRequest& request, v1::Checkpoint* reply,
                                 const Answer& answer) {
  v1::DeleteCheckpointRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(),
       Fingerprint(absl::StrCat("delete checkpoint ", contents.SerializeAsString())),
       request.checkpoint(), reply, answer,
       [&](const ControlLoop::RequestId& request_id, const NamedCheckpoint& named) {
         const std::optional<Refusal> refusal =
             control_->cluster().RefuseRemoval(*named.job, *named.checkpoint, request.force());
         if (refusal.has_value()) return answer(MakeError(*refusal));
         const JobId id = named.job->request.id;
         const CheckpointKey key = named.checkpoint->key;
         PACELINE_LOG(INFO) << "checkpoint_delete job=" << id.value() << " step=" << key.step
                            << " generation=" << key.generation;
         control_->ApplyRequest(request_id, id, RemovalRequested{id, key},
                                ReplyTo(id, key, reply, answer));
       });
}

void CheckpointService::DoPin(const Principal& caller, const v1::PinCheckpointRequest& request,
                              v1::Checkpoint* reply, const Answer& answer) {
  v1::PinCheckpointRequest contents = request;
  contents.clear_request_id();
  Once(caller, request.request_id(),
       Fingerprint(absl::StrCat("pin checkpoint ", contents.SerializeAsString())),
       request.checkpoint(), reply, answer,
       [&](const ControlLoop::RequestId& request_id, const NamedCheckpoint& named) {
         const JobId id = named.job->request.id;
         const CheckpointKey key = named.checkpoint->key;
         if (named.checkpoint->state == CheckpointState::kDeleting) {
           return answer(MakeError(
               grpc::StatusCode::NOT_FOUND, "CHECKPOINT_NOT_FOUND",
               absl::StrCat("the checkpoint ", request.checkpoint(), " is being removed")));
         }
         control_->ApplyRequest(request_id, id, PinRequested{id, key, request.pinned()},
                                ReplyTo(id, key, reply, answer));
       });
}

grpc::Status CheckpointService::DoList(const Principal& caller,
                                       const v1::ListCheckpointsRequest& request,
                                       v1::ListCheckpointsResponse* reply) const {
  int size = 0;
  const grpc::Status page = CheckPageSize(request.page_size(), &size);
  if (!page.ok()) return page;
  std::optional<Age> before;
  if (!request.page_token().empty()) {
    before = ParseToken(request.page_token());
    if (!before.has_value()) return BadPageToken(request.page_token());
  }
  const Job* only = nullptr;
  if (!request.job().empty()) {
    const grpc::Status found = FindJob(caller, control_->cluster(), request.job(), &only);
    if (!found.ok()) return found;
  }
  std::vector<std::pair<Age, NamedCheckpoint>> listed;
  for (const auto& [id, job] : control_->cluster().jobs()) {
    if (only != nullptr ? only != &job : !MaySee(caller, job.submitter)) continue;
    for (const Checkpoint& checkpoint : job.checkpoints.records) {
      const Age age = AgeOf(job, checkpoint);
      if (!before.has_value() || age < *before) listed.push_back({age, {&job, &checkpoint}});
    }
  }
  limits_->Charge(caller, static_cast<int>(listed.size() / kSortedOfPart), EventLoop::Now());
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  if (listed.size() > static_cast<size_t>(size)) {
    listed.resize(static_cast<size_t>(size));
    reply->set_next_page_token(absl::StrJoin(listed.back().first, "."));
  }
  for (const auto& [age, named] : listed) {
    *reply->add_checkpoints() = ToProto(*named.job, *named.checkpoint);
  }
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* CheckpointService::Save(grpc::CallbackServerContext* context,
                                                  const v1::SaveCheckpointRequest* request,
                                                  v1::Job* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoSave(caller, *request, reply,
           [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* CheckpointService::Get(grpc::CallbackServerContext* context,
                                                 const v1::GetCheckpointRequest* request,
                                                 v1::Checkpoint* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    NamedCheckpoint named;
    const grpc::Status found =
        FindCheckpointByName(caller, control_->cluster(), request->checkpoint(), &named);
    if (found.ok()) *reply = ToProto(*named.job, *named.checkpoint);
    reactor->Finish(found);
  });
  return reactor;
}

grpc::ServerUnaryReactor* CheckpointService::List(grpc::CallbackServerContext* context,
                                                  const v1::ListCheckpointsRequest* request,
                                                  v1::ListCheckpointsResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post(
      [=, caller = CallerOf(*context)] { reactor->Finish(DoList(caller, *request, reply)); });
  return reactor;
}

grpc::ServerUnaryReactor* CheckpointService::Delete(grpc::CallbackServerContext* context,
                                                    const v1::DeleteCheckpointRequest* request,
                                                    v1::Checkpoint* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoDelete(caller, *request, reply,
             [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* CheckpointService::Pin(grpc::CallbackServerContext* context,
                                                 const v1::PinCheckpointRequest* request,
                                                 v1::Checkpoint* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits_->AdmitMutation(*context, *request, reactor)) return reactor;
  loop_->Post([=, caller = CallerOf(*context)] {
    DoPin(caller, *request, reply,
          [reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

}  // namespace paceline
