#include "controller/api/services/node_service.h"

#include <google/protobuf/message.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "controller/api/admission/caller.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/node_requests.h"
#include "controller/api/services/paging.h"
#include "controller/core/node/automation.h"
#include "controller/metrics/metrics.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_node.h"
#include "controller/wire/encoded_message.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr int kPartsOfNode = 4;  // Cost of describing a node, in ranks of a job.

DrainMode ModeIn(const v1::DrainNodeRequest& request) {
  return request.mode() == v1::DRAIN_MODE_UNSPECIFIED ? DrainMode::kSwap
                                                      : FromProto(request.mode());
}

absl::Time DeadlineIn(const v1::DrainNodeRequest& request, absl::Time wall_now) {
  if (request.deadline_s() < 0) return absl::InfiniteFuture();
  return wall_now +
         (request.deadline_s() == 0 ? kDefaultDrainDeadline : absl::Seconds(request.deadline_s()));
}

// Returns why the node's ranks cannot all be replaced now, or OK.
grpc::Status CheckReplaceable(const std::vector<DrainEffect>& effects) {
  std::string lines;
  for (const DrainEffect& effect : effects) {
    if (effect.way == DrainWay::kSwap && effect.missing == 0) continue;
    absl::StrAppend(&lines, "\n  ", effect.job.value(), ": ", effect.text);
  }
  if (lines.empty()) return grpc::Status::OK;
  return MakeError(grpc::StatusCode::FAILED_PRECONDITION, "NO_SUBSTITUTE",
                   absl::StrCat("not every rank there can be replaced while its job trains:", lines,
                                "\nfree a slot or add a node, or drain it instead"));
}

}  // namespace

void NodeService::WakeWatchers() {
  for (auto* watcher : watchers_) watcher->Wake();
}

void NodeService::CloseStreams(const grpc::Status& status) {
  for (auto* watcher : watchers_) watcher->Close(status);
}

grpc::Status NodeService::Find(const std::string& name, const Node** node) const {
  const auto& nodes = control_->cluster().nodes();
  const auto found = nodes.find(NodeName(name));
  if (found == nodes.end()) {
    return MakeError(grpc::StatusCode::NOT_FOUND, "NODE_NOT_FOUND",
                     absl::StrCat("no node is named \"", name, "\""), {{"node", name}});
  }
  *node = &found->second;
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* NodeService::Get(grpc::CallbackServerContext* context,
                                           const v1::GetNodeRequest* request, v1::Node* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=] {
    const Node* node = nullptr;
    const grpc::Status found = Find(request->name(), &node);
    if (found.ok()) *reply = control_->Describe(*node);
    reactor->Finish(found);
  });
  return reactor;
}

grpc::ServerUnaryReactor* NodeService::History(grpc::CallbackServerContext* context,
                                               const v1::NodeHistoryRequest* request,
                                               v1::NodeHistory* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=] {
    const Node* node = nullptr;
    const grpc::Status found = Find(request->name(), &node);
    if (!found.ok()) return reactor->Finish(found);
    for (const NodeLifeEvent& event : node->history) *reply->add_events() = ToProto(event);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* NodeService::List(grpc::CallbackServerContext* context,
                                            const v1::ListNodesRequest* request,
                                            v1::ListNodesResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    int size = 0;
    const grpc::Status page = CheckPageSize(request->page_size(), &size);
    if (!page.ok()) return reactor->Finish(page);
    // The token is the name of the last node of the previous page.
    const auto& nodes = control_->cluster().nodes();
    auto next = request->page_token().empty() ? nodes.begin()
                                              : nodes.upper_bound(NodeName(request->page_token()));
    std::vector<NodeName> names;
    for (; next != nodes.end(); ++next) {
      if (names.size() == static_cast<size_t>(size)) {
        reply->set_next_page_token(names.back().value());
        break;
      }
      names.push_back(next->first);
    }
    reply->set_revision(control_->node_log().revision());
    const auto add = [=](const NodeName& name) {
      const Node* node = nullptr;
      if (Find(name.value(), &node).ok()) *reply->add_nodes() = control_->Describe(*node);
      return kPartsOfNode;
    };
    lists_->Make<NodeName>(caller, std::move(names), add, reactor);
  });
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* NodeService::Watch(grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* encoded) {
  v1::WatchNodesRequest request;
  const grpc::Status decoded = DecodeRequest(*encoded, &request);
  const auto next = [this](const std::string& id) -> std::optional<Watcher::Present> {
    const auto& nodes = control_->cluster().nodes();
    const auto node = nodes.upper_bound(NodeName(id));
    if (node == nodes.end()) return std::nullopt;
    Watcher::Present present{node->first.value(), v1::NodeEvent()};
    *present.event.mutable_node() = control_->Describe(node->second);
    return present;
  };
  auto* stream = new Watcher(
      loop_, sender_, limits_->OpenStream(context, request), &control_->node_log(), &watchers_,
      [](const WatchKey&) { return true; }, &metrics_->node_watches());
  loop_->Post([stream, decoded, next, after = request.after_revision()] {
    if (!stream->Admit()) return;
    decoded.ok() ? stream->Begin(after, next) : stream->Close(decoded);
  });
  return stream;
}

template <typename Request>
void NodeService::Once(
    const char* verb, const Request& request, const CommitQueue::Then& reply, const Answer& answer,
    const std::function<void(const ControlLoop::RequestId&, const Node&)>& mutate) {
  Request contents = request;
  contents.clear_request_id();
  mutations_.Once(
      request.request_id(), Fingerprint(absl::StrCat(verb, " ", contents.SerializeAsString())),
      answer, [&](const RequestLog::Entry&) { control_->WhenDurable(reply); },
      [&](const ControlLoop::RequestId& request_id) {
        const Node* node = nullptr;
        const grpc::Status found = Find(request.name(), &node);
        if (!found.ok()) return answer(found);
        mutate(request_id, *node);
      });
}

CommitQueue::Then NodeService::ReplyNode(const std::string& name, v1::Node* reply,
                                         const Answer& answer) {
  return mutations_.Reply(answer, [this, name, reply] {
    const Node* node = nullptr;
    const grpc::Status found = Find(name, &node);
    if (found.ok()) *reply = control_->Describe(*node);
    return found;
  });
}

void NodeService::DoCordon(const v1::CordonNodeRequest& request, v1::Node* reply, Answer answer) {
  const grpc::Status valid = CheckRequest(request, ControlLoop::Now().wall);
  if (!valid.ok()) return answer(valid);
  const CommitQueue::Then then = ReplyNode(request.name(), reply, answer);
  Once("cordon", request, then, answer,
       [&](const ControlLoop::RequestId& request_id, const Node& node) {
         Hold hold;
         hold.owner = request.owner();
         hold.reason = request.reason();
         if (request.has_until()) hold.until = FromProto(request.until());
         PACELINE_LOG(INFO) << "node_cordon node=" << request.name() << " owner=" << hold.owner;
         control_->ApplyRequest(request_id, JobId(), HoldRequested{node.facts.name, hold}, then);
       });
}

void NodeService::DoUncordon(const v1::UncordonNodeRequest& request, v1::Node* reply,
                             Answer answer) {
  const grpc::Status valid = RequestError(CheckOwner(request.owner(), /*person=*/false));
  if (!valid.ok()) return answer(valid);
  const CommitQueue::Then then = ReplyNode(request.name(), reply, answer);
  Once("uncordon", request, then, answer,
       [&](const ControlLoop::RequestId& request_id, const Node& node) {
         PACELINE_LOG(INFO) << "node_uncordon node=" << request.name()
                            << " owner=" << request.owner();
         control_->ApplyRequest(request_id, JobId(),
                                UncordonRequested{node.facts.name, request.owner()}, then);
       });
}

void NodeService::DoDrain(const v1::DrainNodeRequest& request, v1::DrainNodeResponse* reply,
                          Answer answer) {
  const grpc::Status valid = CheckRequest(request);
  if (!valid.ok()) return answer(valid);
  // Computed before anything is begun.
  const std::vector<DrainEffect> effects = control_->cluster().EffectsOfDrain(
      NodeName(request.name()), ModeIn(request), ControlLoop::Now());
  const auto fill = [this, name = request.name(), effects, reply] {
    const Node* node = nullptr;
    const grpc::Status found = Find(name, &node);
    if (!found.ok()) return found;
    *reply->mutable_node() = control_->Describe(*node);
    for (const DrainEffect& effect : effects) *reply->add_effects() = ToProto(effect);
    return grpc::Status::OK;
  };
  const auto refuse = [this, &request, &effects](const Node& node) -> grpc::Status {
    const NodeName& name = node.facts.name;
    const auto refusal = request.owner() == kAutomationOwner
                             ? control_->cluster().RefuseAutomatic(name)
                             : std::nullopt;
    if (refusal.has_value()) return MakeError(*refusal);
    if (!request.replace()) return grpc::Status::OK;
    return CheckReplaceable(effects);
  };
  if (request.dry_run()) {
    const Node* node = nullptr;
    grpc::Status status = Find(request.name(), &node);
    if (status.ok()) status = refuse(*node);
    if (status.ok()) status = fill();
    return answer(status);
  }
  const CommitQueue::Then then = mutations_.Reply(answer, fill);
  Once("drain", request, then, answer,
       [&](const ControlLoop::RequestId& request_id, const Node& node) {
         const DrainMode mode = ModeIn(request);
         const absl::Time until = DeadlineIn(request, ControlLoop::Now().wall);
         const AutomaticDrainRequested automatic{node.facts.name, request.reason(), mode, until};
         const grpc::Status refused = refuse(node);
         if (!refused.ok()) {
           // Pulls the brake, if that is the reason.
           if (request.owner() == kAutomationOwner) control_->Apply(automatic);
           return answer(refused);
         }
         PACELINE_LOG(INFO) << "node_drain node=" << request.name() << " owner=" << request.owner()
                            << " mode=" << DrainModeName(mode);
         if (request.owner() == kAutomationOwner) {
           return control_->ApplyRequest(request_id, JobId(), automatic, then);
         }
         Hold hold;
         hold.drain = mode;
         hold.owner = request.owner();
         hold.reason = request.reason();
         hold.until = until;
         control_->ApplyRequest(request_id, JobId(), HoldRequested{node.facts.name, hold}, then);
       });
}

void NodeService::DoResume(const v1::ResumeNodeRequest& request, v1::Node* reply, Answer answer) {
  const grpc::Status valid = RequestError(CheckOwner(request.owner(), /*person=*/false));
  if (!valid.ok()) return answer(valid);
  const CommitQueue::Then then = ReplyNode(request.name(), reply, answer);
  Once("resume", request, then, answer,
       [&](const ControlLoop::RequestId& request_id, const Node& node) {
         PACELINE_LOG(INFO) << "node_resume node=" << request.name()
                            << " owner=" << request.owner();
         control_->ApplyRequest(request_id, JobId(),
                                NodeResumeRequested{node.facts.name, request.owner()}, then);
       });
}

void NodeService::DoDeclareLost(const v1::DeclareNodeLostRequest& request, v1::Node* reply,
                                Answer answer) {
  const grpc::Status valid = CheckRequest(request);
  if (!valid.ok()) return answer(valid);
  const CommitQueue::Then then = ReplyNode(request.name(), reply, answer);
  Once("lost", request, then, answer,
       [&](const ControlLoop::RequestId& request_id, const Node& node) {
         if (node.contact == Contact::kReachable) {
           return answer(MakeError(
               grpc::StatusCode::FAILED_PRECONDITION, "NODE_CONNECTED",
               absl::StrCat("the worker of ", request.name(),
                            " reports, so it is not lost: drain it with mode now instead")));
         }
         PACELINE_LOG(WARNING) << "node_declared_lost node=" << request.name()
                               << " owner=" << request.owner();
         control_->ApplyRequest(request_id, JobId(),
                                LossDeclared{node.facts.name, request.owner(), request.reason()},
                                then);
       });
}

void NodeService::DoCheck(const v1::CheckNodeRequest& request, v1::Node* reply, Answer answer) {
  const CommitQueue::Then then = ReplyNode(request.name(), reply, answer);
  Once("check", request, then, answer,
       [&](const ControlLoop::RequestId& request_id, const Node& node) {
         const auto refusal = RefuseCheck(node, ControlLoop::Now().wall);
         if (refusal.has_value()) return answer(MakeError(*refusal));
         PACELINE_LOG(INFO) << "node_check node=" << request.name();
         control_->ApplyRequest(request_id, JobId(), CheckRequested{node.facts.name}, then);
       });
}

namespace {

// Runs `act` on the loop and finishes the call with its answer, unless the caller asks too often or
// its request is too large.
template <typename Act>
grpc::ServerUnaryReactor* OnLoop(EventLoop* loop, CallLimits* limits,
                                 grpc::CallbackServerContext* context,
                                 const google::protobuf::Message& request, Act act) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!limits->AdmitMutation(*context, request, reactor)) return reactor;
  loop->Post([reactor, act = std::move(act)] {
    act([reactor](const grpc::Status& status) { reactor->Finish(status); });
  });
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* NodeService::Cordon(grpc::CallbackServerContext* context,
                                              const v1::CordonNodeRequest* request,
                                              v1::Node* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoCordon(*request, reply, answer); });
}

grpc::ServerUnaryReactor* NodeService::Uncordon(grpc::CallbackServerContext* context,
                                                const v1::UncordonNodeRequest* request,
                                                v1::Node* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoUncordon(*request, reply, answer); });
}

grpc::ServerUnaryReactor* NodeService::Drain(grpc::CallbackServerContext* context,
                                             const v1::DrainNodeRequest* request,
                                             v1::DrainNodeResponse* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoDrain(*request, reply, answer); });
}

grpc::ServerUnaryReactor* NodeService::Resume(grpc::CallbackServerContext* context,
                                              const v1::ResumeNodeRequest* request,
                                              v1::Node* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoResume(*request, reply, answer); });
}

grpc::ServerUnaryReactor* NodeService::DeclareLost(grpc::CallbackServerContext* context,
                                                   const v1::DeclareNodeLostRequest* request,
                                                   v1::Node* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoDeclareLost(*request, reply, answer); });
}

grpc::ServerUnaryReactor* NodeService::Check(grpc::CallbackServerContext* context,
                                             const v1::CheckNodeRequest* request, v1::Node* reply) {
  return OnLoop(loop_, limits_, context, *request,
                [=](const Answer& answer) { DoCheck(*request, reply, answer); });
}

}  // namespace paceline
