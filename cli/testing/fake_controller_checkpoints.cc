// The CheckpointService of the fake controller.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/testing/fake_controller.h"
#include "cli/testing/fake_errors.h"
#include "grpcpp/grpcpp.h"
#include "proto/checkpoint.grpc.pb.h"

namespace paceline {

class FakeController::CheckpointCalls : public v1::CheckpointService::Service {
 public:
  explicit CheckpointCalls(FakeController& fake) : fake_(fake) {}

  // Answers with the first job and order 1, PENDING.
  grpc::Status Save(grpc::ServerContext*, const v1::SaveCheckpointRequest*, v1::Job*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetCheckpointRequest*, v1::Checkpoint*) override;
  grpc::Status List(grpc::ServerContext*, const v1::ListCheckpointsRequest*,
                    v1::ListCheckpointsResponse*) override;
  grpc::Status Delete(grpc::ServerContext*, const v1::DeleteCheckpointRequest*,
                      v1::Checkpoint*) override;
  grpc::Status Pin(grpc::ServerContext*, const v1::PinCheckpointRequest*, v1::Checkpoint*) override;

 private:
  FakeController& fake_;
};

std::unique_ptr<grpc::Service> FakeController::NewCheckpointCalls() {
  return std::make_unique<CheckpointCalls>(*this);
}

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

grpc::Status FakeController::CheckpointCalls::Save(grpc::ServerContext*,
                                                   const v1::SaveCheckpointRequest* request,
                                                   v1::Job* job) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.saves_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  *job = fake_.jobs_.front();
  job->mutable_checkpoints()->mutable_order()->set_number(1);
  job->mutable_checkpoints()->mutable_order()->set_state(v1::SaveOrderStatus::PENDING);
  return grpc::Status::OK;
}

grpc::Status FakeController::CheckpointCalls::Get(grpc::ServerContext*,
                                                  const v1::GetCheckpointRequest* request,
                                                  v1::Checkpoint* checkpoint) {
  const absl::MutexLock lock(&fake_.mutex_);
  return fake_.Find(request->checkpoint(), checkpoint);
}

grpc::Status FakeController::CheckpointCalls::List(grpc::ServerContext*,
                                                   const v1::ListCheckpointsRequest* request,
                                                   v1::ListCheckpointsResponse* response) {
  const absl::MutexLock lock(&fake_.mutex_);
  size_t at = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  for (; at < fake_.checkpoints_.size() && response->checkpoints_size() < request->page_size();
       ++at) {
    const v1::Checkpoint& known = fake_.checkpoints_[at];
    const std::string& job = request->job();
    if (job.empty() || job == known.job_id() || job == known.job_name()) {
      *response->add_checkpoints() = known;
    }
  }
  if (at < fake_.checkpoints_.size()) response->set_next_page_token(absl::StrCat(at));
  return grpc::Status::OK;
}

grpc::Status FakeController::CheckpointCalls::Delete(grpc::ServerContext* context,
                                                     const v1::DeleteCheckpointRequest* request,
                                                     v1::Checkpoint* checkpoint) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.NoteUser(*context);
  fake_.deletes_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  const grpc::Status found = fake_.Find(request->checkpoint(), checkpoint);
  if (found.ok()) checkpoint->set_state(v1::CHECKPOINT_DELETING);
  return found;
}

grpc::Status FakeController::CheckpointCalls::Pin(grpc::ServerContext*,
                                                  const v1::PinCheckpointRequest* request,
                                                  v1::Checkpoint* checkpoint) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.pins_.push_back(*request);
  if (const grpc::Status failure = fake_.NextFailure(); !failure.ok()) return failure;
  const grpc::Status found = fake_.Find(request->checkpoint(), checkpoint);
  if (found.ok()) checkpoint->set_pinned(request->pinned());
  return found;
}

}  // namespace paceline
