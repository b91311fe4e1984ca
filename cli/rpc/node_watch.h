// The changes of nodes: watch_changes.h.
#ifndef CLI_RPC_NODE_WATCH_H_
#define CLI_RPC_NODE_WATCH_H_

#include "cli/rpc/client.h"
#include "cli/rpc/watch_changes.h"
#include "grpcpp/support/status.h"
#include "proto/node.pb.h"

namespace paceline {

// As WatchChanges.
grpc::Status WatchNodes(Client& client, const ChangeWatch<v1::NodeEvent>& watch);

}  // namespace paceline

#endif  // CLI_RPC_NODE_WATCH_H_
