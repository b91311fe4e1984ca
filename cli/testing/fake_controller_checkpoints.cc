// The CheckpointService of the fake controller.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/testing/fake_controller.h"
#include "cli/testing/fake_errors.h"

namespace paceline {

void FakeController::SetCheckpoints(std::vector<v1::Checkpoint> checkpoints) {
  const absl::MutexLock lock(&mutex_);
  checkpoints_ = std::move(checkpoints);
}

std::vector<v1::SaveCheckpointRequest> FakeController::saves() const {
  const absl::MutexLock lock(&mutex_);
  return saves_;
}

std::vector<v1::DeleteCheckpointRequest> FakeController::deletes() const {
  const absl::MutexLock lock(&mutex_);
  return deletes_;
}

std::vector<v1::PinCheckpointRequest> FakeController::pins() const {
  const absl::MutexLock lock(&mutex_);
  return pins_;
}

grpc::Status FakeController::Find(const std::string& name, v1::Checkpoint* checkpoint) const {
  for (const v1::Checkpoint& known : checkpoints_) {
    for (const std::string& job : {known.job_id(), known.job_name()}) {
      if (name != job && name != absl::StrCat(job, "/", known.step())) continue;
      *checkpoint = known;
      return grpc::Status::OK;
    }
  }
  return NotFound("checkpoint", name, "CHECKPOINT_NOT_FOUND");
}

grpc::Status FakeController::Save(grpc::ServerContext*, const v1::SaveCheckpointRequest* request,
                                  v1::Job* job) {
  const absl::MutexLock lock(&mutex_);
  saves_.push_back(*request);
  if (const grpc::Status failure = NextFailure(); !failure.ok()) return failure;
  *job = jobs_.front();
  job->mutable_checkpoints()->mutable_order()->set_number(1);
  job->mutable_checkpoints()->mutable_order()->set_state(v1::SaveOrderStatus::PENDING);
  return grpc::Status::OK;
}

grpc::Status FakeController::Get(grpc::ServerContext*, const v1::GetCheckpointRequest* request,
                                 v1::Checkpoint* checkpoint) {
  const absl::MutexLock lock(&mutex_);
  return Find(request->checkpoint(), checkpoint);
}

grpc::Status FakeController::List(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                                  v1::ListCheckpointsResponse* response) {
  const absl::MutexLock lock(&mutex_);
  size_t at = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  for (; at < checkpoints_.size() && response->checkpoints_size() < request->page_size(); ++at) {
    const v1::Checkpoint& known = checkpoints_[at];
    const std::string& job = request->job();
    if (job.empty() || job == known.job_id() || job == known.job_name()) {
      *response->add_checkpoints() = known;
    }
  }
  if (at < checkpoints_.size()) response->set_next_page_token(absl::StrCat(at));
  return grpc::Status::OK;
}

grpc::Status FakeController::Delete(grpc::ServerContext* context,
                                    const v1::DeleteCheckpointRequest* request,
                                    v1::Checkpoint* checkpoint) {
  const absl::MutexLock lock(&mutex_);
  NoteUser(*context);
  deletes_.push_back(*request);
  if (const grpc::Status failure = NextFailure(); !failure.ok()) return failure;
  const grpc::Status found = Find(request->checkpoint(), checkpoint);
  if (found.ok()) checkpoint->set_state(v1::CHECKPOINT_DELETING);
  return found;
}

grpc::Status FakeController::Pin(grpc::ServerContext*, const v1::PinCheckpointRequest* request,
                                 v1::Checkpoint* checkpoint) {
  const absl::MutexLock lock(&mutex_);
  pins_.push_back(*request);
  if (const grpc::Status failure = NextFailure(); !failure.ok()) return failure;
  const grpc::Status found = Find(request->checkpoint(), checkpoint);
  if (found.ok()) checkpoint->set_pinned(request->pinned());
  return found;
}

}  // namespace paceline
