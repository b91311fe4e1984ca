#include "controller/rpc/node_service.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/rpc/caller.h"
#include "controller/rpc/convert_node.h"
#include "controller/rpc/encoded_message.h"
#include "controller/rpc/errors.h"
#include "controller/rpc/paging.h"

namespace paceline {
namespace {

constexpr int kPartsOfNode = 4;  // What its message costs, in ranks of a job's.

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
    // The token is the name of the last node shown.
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

}  // namespace paceline
