#include "cli/testing/fake_nodes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/testing/fake_errors.h"
#include "grpcpp/grpcpp.h"
#include "proto/node.grpc.pb.h"

namespace paceline {

class FakeNodes::Calls : public v1::NodeService::Service, public v1::AutomationService::Service {
 public:
  explicit Calls(FakeNodes& fake) : fake_(fake) {}

  grpc::Status Get(grpc::ServerContext*, const v1::GetNodeRequest*, v1::Node*) override;
  grpc::Status List(grpc::ServerContext*, const v1::ListNodesRequest*,
                    v1::ListNodesResponse*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchNodesRequest*,
                     grpc::ServerWriter<v1::NodeEvent>*) override;
  grpc::Status History(grpc::ServerContext*, const v1::NodeHistoryRequest*,
                       v1::NodeHistory*) override;
  grpc::Status Cordon(grpc::ServerContext*, const v1::CordonNodeRequest*, v1::Node*) override;
  grpc::Status Uncordon(grpc::ServerContext*, const v1::UncordonNodeRequest*, v1::Node*) override;
  grpc::Status Drain(grpc::ServerContext*, const v1::DrainNodeRequest*,
                     v1::DrainNodeResponse*) override;
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeNodeRequest*, v1::Node*) override;
  grpc::Status DeclareLost(grpc::ServerContext*, const v1::DeclareNodeLostRequest*,
                           v1::Node*) override;
  grpc::Status Check(grpc::ServerContext*, const v1::CheckNodeRequest*, v1::Node*) override;
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetAutomationStatusRequest*,
                         v1::AutomationStatus*) override;
  grpc::Status Pause(grpc::ServerContext*, const v1::PauseAutomationRequest*,
                     v1::AutomationStatus*) override;
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeAutomationRequest*,
                      v1::AutomationStatus*) override;

 private:
  FakeNodes& fake_;
};

FakeNodes::FakeNodes() : calls_(std::make_unique<Calls>(*this)) {}

FakeNodes::~FakeNodes() = default;

void FakeNodes::RegisterWith(grpc::ServerBuilder& builder) {
  builder.RegisterService(static_cast<v1::NodeService::Service*>(calls_.get()));
  builder.RegisterService(static_cast<v1::AutomationService::Service*>(calls_.get()));
}

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

grpc::Status FakeNodes::Calls::Get(grpc::ServerContext*, const v1::GetNodeRequest* request,
                                   v1::Node* node) {
  const absl::MutexLock lock(&fake_.mutex_);
  return fake_.Find(request->name(), node);
}

grpc::Status FakeNodes::Calls::List(grpc::ServerContext*, const v1::ListNodesRequest*,
                                    v1::ListNodesResponse* response) {
  const absl::MutexLock lock(&fake_.mutex_);
  for (const v1::Node& node : fake_.nodes_) *response->add_nodes() = node;
  return grpc::Status::OK;
}

grpc::Status FakeNodes::Calls::Watch(grpc::ServerContext* context, const v1::WatchNodesRequest*,
                                     grpc::ServerWriter<v1::NodeEvent>* writer) {
  std::vector<v1::NodeEvent> events;
  std::function<void()> idle;
  bool last = false;
  {
    const absl::MutexLock lock(&fake_.mutex_);
    if (!fake_.watches_.empty()) {
      events = std::move(fake_.watches_.front());
      fake_.watches_.pop_front();
    }
    last = fake_.watches_.empty();
    idle = fake_.on_watch_idle_;
  }
  for (const v1::NodeEvent& event : events) writer->Write(event);
  if (!last) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection lost");
  if (idle) idle();
  const absl::MutexLock lock(&fake_.mutex_);
  while (!fake_.stopping_ && !context->IsCancelled()) {
    fake_.mutex_.AwaitWithTimeout(absl::Condition(&fake_.stopping_), absl::Milliseconds(2));
  }
  return grpc::Status::OK;
}

grpc::Status FakeNodes::Calls::History(grpc::ServerContext*, const v1::NodeHistoryRequest* request,
                                       v1::NodeHistory* history) {
  const absl::MutexLock lock(&fake_.mutex_);
  *history = fake_.history_;
  v1::Node node;
  return fake_.Find(request->name(), &node);
}

grpc::Status FakeNodes::Calls::Cordon(grpc::ServerContext*, const v1::CordonNodeRequest* request,
                                      v1::Node* node) {
  return fake_.Change("Cordon", *request, request->name(), v1::NODE_CORDONED,
                      absl::StrCat("cordoned by ", request->owner(), ": ", request->reason()),
                      node);
}

grpc::Status FakeNodes::Calls::Uncordon(grpc::ServerContext*,
                                        const v1::UncordonNodeRequest* request, v1::Node* node) {
  return fake_.Change("Uncordon", *request, request->name(), v1::NODE_READY, "reports arrive",
                      node);
}

grpc::Status FakeNodes::Calls::Drain(grpc::ServerContext*, const v1::DrainNodeRequest* request,
                                     v1::DrainNodeResponse* response) {
  const grpc::Status status =
      fake_.Change("Drain", *request, request->name(), v1::NODE_DRAINING,
                   absl::StrCat("drained by ", request->owner(), ": ", request->reason()),
                   response->mutable_node());
  const absl::MutexLock lock(&fake_.mutex_);
  for (const v1::DrainEffect& effect : fake_.effects_) *response->add_effects() = effect;
  return status;
}

grpc::Status FakeNodes::Calls::Resume(grpc::ServerContext*, const v1::ResumeNodeRequest* request,
                                      v1::Node* node) {
  return fake_.Change("Resume", *request, request->name(), v1::NODE_READY, "reports arrive", node);
}

grpc::Status FakeNodes::Calls::DeclareLost(grpc::ServerContext*,
                                           const v1::DeclareNodeLostRequest* request,
                                           v1::Node* node) {
  return fake_.Change("DeclareLost", *request, request->name(), v1::NODE_LOST,
                      absl::StrCat("declared lost by ", request->owner(), ": ", request->reason()),
                      node);
}

grpc::Status FakeNodes::Calls::Check(grpc::ServerContext*, const v1::CheckNodeRequest* request,
                                     v1::Node* node) {
  return fake_.Change("Check", *request, request->name(), v1::NODE_READY, "reports arrive", node);
}

grpc::Status FakeNodes::Calls::GetStatus(grpc::ServerContext*,
                                         const v1::GetAutomationStatusRequest*,
                                         v1::AutomationStatus* status) {
  const absl::MutexLock lock(&fake_.mutex_);
  *status = fake_.automation_;
  return grpc::Status::OK;
}

grpc::Status FakeNodes::Calls::Pause(grpc::ServerContext*,
                                     const v1::PauseAutomationRequest* request,
                                     v1::AutomationStatus* status) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.automation_.set_paused(true);
  fake_.automation_.set_owner(request->owner());
  fake_.automation_.set_reason(request->reason());
  *status = fake_.automation_;
  return fake_.Record("Pause", *request);
}

grpc::Status FakeNodes::Calls::Resume(grpc::ServerContext*,
                                      const v1::ResumeAutomationRequest* request,
                                      v1::AutomationStatus* status) {
  const absl::MutexLock lock(&fake_.mutex_);
  fake_.automation_.Clear();
  *status = fake_.automation_;
  return fake_.Record("ResumeAutomation", *request);
}

}  // namespace paceline
