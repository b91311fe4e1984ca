#include "controller/rpc/node_service.h"

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/rpc/convert_node.h"
#include "controller/rpc/errors.h"
#include "controller/rpc/paging.h"

namespace paceline {

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
  loop_->Post([=] {
    int size = 0;
    const grpc::Status page = CheckPageSize(request->page_size(), &size);
    if (!page.ok()) return reactor->Finish(page);
    // The token is the name of the last node shown.
    const auto& nodes = control_->cluster().nodes();
    auto next = request->page_token().empty() ? nodes.begin()
                                              : nodes.upper_bound(NodeName(request->page_token()));
    for (; next != nodes.end(); ++next) {
      if (reply->nodes_size() == size) {
        reply->set_next_page_token(reply->nodes(size - 1).name());
        break;
      }
      *reply->add_nodes() = control_->Describe(next->second);
    }
    reply->set_revision(control_->node_log().revision());
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::NodeEvent>* NodeService::Watch(grpc::CallbackServerContext* context,
                                                            const v1::WatchNodesRequest* request) {
  auto* stream = new WatchStream<v1::NodeEvent>(
      loop_, limits_->OpenStream(context), &control_->node_log(), &watchers_,
      [](const v1::NodeEvent&) { return true; }, &metrics_->node_watches());
  loop_->Post([=, after = request->after_revision()] {
    if (!stream->Admit()) return;
    std::deque<v1::NodeEvent> present;
    for (const auto& [name, node] : control_->cluster().nodes()) {
      if (after != 0) break;
      v1::NodeEvent& event = present.emplace_back();
      event.set_type(v1::ADDED);
      *event.mutable_node() = control_->Describe(node);
      event.set_revision(control_->node_log().revision());
    }
    stream->Begin(after, std::move(present));
  });
  return stream;
}

}  // namespace paceline
