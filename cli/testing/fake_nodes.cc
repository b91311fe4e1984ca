#include "cli/testing/fake_nodes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/testing/fake_errors.h"

namespace paceline {

void FakeNodes::SetNodes(std::vector<v1::Node> nodes) {
  const absl::MutexLock lock(&mutex_);
  nodes_ = std::move(nodes);
}

void FakeNodes::SetHistory(v1::NodeHistory history) {
  const absl::MutexLock lock(&mutex_);
  history_ = std::move(history);
}

void FakeNodes::SetEffects(std::vector<v1::DrainEffect> effects) {
  const absl::MutexLock lock(&mutex_);
  effects_ = std::move(effects);
}

void FakeNodes::AddWatch(std::vector<v1::NodeEvent> events) {
  const absl::MutexLock lock(&mutex_);
  watches_.push_back(std::move(events));
}

void FakeNodes::OnWatchIdle(std::function<void()> callback) {
  const absl::MutexLock lock(&mutex_);
  on_watch_idle_ = std::move(callback);
}

void FakeNodes::FailNext(grpc::Status status) {
  const absl::MutexLock lock(&mutex_);
  failures_.push_back(std::move(status));
}

std::vector<std::string> FakeNodes::requests() const {
  const absl::MutexLock lock(&mutex_);
  return requests_;
}

void FakeNodes::Stop() {
  const absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

grpc::Status FakeNodes::Find(const std::string& name, v1::Node* node) const {
  for (const v1::Node& known : nodes_) {
    if (known.name() != name) continue;
    *node = known;
    return grpc::Status::OK;
  }
  return NotFound("node", name, "NODE_NOT_FOUND");
}

grpc::Status FakeNodes::Record(const std::string& verb, const google::protobuf::Message& request) {
  requests_.push_back(absl::StrCat(verb, " ", request.ShortDebugString()));
  if (failures_.empty()) return grpc::Status::OK;
  grpc::Status failure = failures_.front();
  failures_.pop_front();
  return failure;
}

grpc::Status FakeNodes::Change(const std::string& verb, const google::protobuf::Message& request,
                               const std::string& name, v1::NodeState state,
                               const std::string& reason, v1::Node* node) {
  const absl::MutexLock lock(&mutex_);
  const grpc::Status failure = Record(verb, request);
  if (!failure.ok()) return failure;
  const grpc::Status found = Find(name, node);
  node->set_state(state);
  node->set_reason(reason);
  return found;
}

grpc::Status FakeNodes::Get(grpc::ServerContext*, const v1::GetNodeRequest* request,
                            v1::Node* node) {
  const absl::MutexLock lock(&mutex_);
  return Find(request->name(), node);
}

grpc::Status FakeNodes::List(grpc::ServerContext*, const v1::ListNodesRequest*,
                             v1::ListNodesResponse* response) {
  const absl::MutexLock lock(&mutex_);
  for (const v1::Node& node : nodes_) *response->add_nodes() = node;
  return grpc::Status::OK;
}

grpc::Status FakeNodes::Watch(grpc::ServerContext* context, const v1::WatchNodesRequest*,
                              grpc::ServerWriter<v1::NodeEvent>* writer) {
  std::vector<v1::NodeEvent> events;
  std::function<void()> idle;
  bool last = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (!watches_.empty()) {
      events = std::move(watches_.front());
      watches_.pop_front();
    }
    last = watches_.empty();
    idle = on_watch_idle_;
  }
  for (const v1::NodeEvent& event : events) writer->Write(event);
  if (!last) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection lost");
  if (idle) idle();
  const absl::MutexLock lock(&mutex_);
  while (!stopping_ && !context->IsCancelled()) {
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), absl::Milliseconds(2));
  }
  return grpc::Status::OK;
}

grpc::Status FakeNodes::History(grpc::ServerContext*, const v1::NodeHistoryRequest* request,
                                v1::NodeHistory* history) {
  const absl::MutexLock lock(&mutex_);
  *history = history_;
  v1::Node node;
  return Find(request->name(), &node);
}

grpc::Status FakeNodes::Cordon(grpc::ServerContext*, const v1::CordonNodeRequest* request,
                               v1::Node* node) {
  return Change("Cordon", *request, request->name(), v1::NODE_CORDONED,
                absl::StrCat("cordoned by ", request->owner(), ": ", request->reason()), node);
}

grpc::Status FakeNodes::Uncordon(grpc::ServerContext*, const v1::UncordonNodeRequest* request,
                                 v1::Node* node) {
  return Change("Uncordon", *request, request->name(), v1::NODE_READY, "reports arrive", node);
}

grpc::Status FakeNodes::Drain(grpc::ServerContext*, const v1::DrainNodeRequest* request,
                              v1::DrainNodeResponse* response) {
  const grpc::Status status =
      Change("Drain", *request, request->name(), v1::NODE_DRAINING,
             absl::StrCat("drained by ", request->owner(), ": ", request->reason()),
             response->mutable_node());
  const absl::MutexLock lock(&mutex_);
  for (const v1::DrainEffect& effect : effects_) *response->add_effects() = effect;
  return status;
}

grpc::Status FakeNodes::Resume(grpc::ServerContext*, const v1::ResumeNodeRequest* request,
                               v1::Node* node) {
  return Change("Resume", *request, request->name(), v1::NODE_READY, "reports arrive", node);
}

grpc::Status FakeNodes::DeclareLost(grpc::ServerContext*, const v1::DeclareNodeLostRequest* request,
                                    v1::Node* node) {
  return Change("DeclareLost", *request, request->name(), v1::NODE_LOST,
                absl::StrCat("declared lost by ", request->owner(), ": ", request->reason()), node);
}

grpc::Status FakeNodes::Check(grpc::ServerContext*, const v1::CheckNodeRequest* request,
                              v1::Node* node) {
  return Change("Check", *request, request->name(), v1::NODE_READY, "reports arrive", node);
}

grpc::Status FakeNodes::GetStatus(grpc::ServerContext*, const v1::GetAutomationStatusRequest*,
                                  v1::AutomationStatus* status) {
  const absl::MutexLock lock(&mutex_);
  *status = automation_;
  return grpc::Status::OK;
}

grpc::Status FakeNodes::Pause(grpc::ServerContext*, const v1::PauseAutomationRequest* request,
                              v1::AutomationStatus* status) {
  const absl::MutexLock lock(&mutex_);
  automation_.set_paused(true);
  automation_.set_owner(request->owner());
  automation_.set_reason(request->reason());
  *status = automation_;
  return Record("Pause", *request);
}

grpc::Status FakeNodes::Resume(grpc::ServerContext*, const v1::ResumeAutomationRequest* request,
                               v1::AutomationStatus* status) {
  const absl::MutexLock lock(&mutex_);
  automation_.Clear();
  *status = automation_;
  return Record("ResumeAutomation", *request);
}

}  // namespace paceline
