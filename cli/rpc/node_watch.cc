#include "cli/rpc/node_watch.h"

#include <functional>
#include <utility>

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
      });
}

}  // namespace paceline
