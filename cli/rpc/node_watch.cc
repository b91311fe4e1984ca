#include "cli/rpc/node_watch.h"

#include <functional>
#include <string>
#include <utility>

#include "proto/job.pb.h"

namespace paceline {

grpc::Status WatchNodes(Client& client, const ChangeWatch<v1::NodeEvent>& watch) {
  return WatchChanges<v1::NodeEvent>(
      client, v1::WatchNodesRequest(), watch,
      [&](const v1::WatchNodesRequest& from,
          const std::function<bool(const v1::NodeEvent&)>& each) {
        return client.WatchNodes(from, each, watch.deadline);
      },
      [](const v1::NodeEvent& event) {
        return std::make_pair(event.node().name(), event.node().revision());
      },
      [](const std::string& name) {
        v1::NodeEvent event;
        event.set_type(v1::DELETED);
        event.mutable_node()->set_name(name);
        return event;
      });
}

}  // namespace paceline
