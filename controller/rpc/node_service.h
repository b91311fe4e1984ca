// NodeService: proto/node.proto.
#ifndef CONTROLLER_RPC_NODE_SERVICE_H_
#define CONTROLLER_RPC_NODE_SERVICE_H_

#include "common/event_loop.h"
#include "controller/control_loop.h"
#include "controller/rpc/watch_stream.h"
#include "proto/node.grpc.pb.h"

namespace paceline {

class NodeService : public v1::NodeService::CallbackService {
 public:
  // Both outlive this.
  NodeService(EventLoop* loop, ControlLoop* control) : loop_(loop), control_(control) {}

  // The watch log has grown. On the loop.
  void WakeWatchers();
  // Ends all streams: the controller goes away. On the loop.
  void CloseStreams();

  // Called by gRPC.
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetNodeRequest* request, v1::Node* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListNodesRequest* request,
                                 v1::ListNodesResponse* reply) override;
  grpc::ServerWriteReactor<v1::NodeEvent>* Watch(grpc::CallbackServerContext* context,
                                                 const v1::WatchNodesRequest* request) override;

 private:
  EventLoop* const loop_;
  ControlLoop* const control_;

  // On the loop.
  WatchStream<v1::NodeEvent>::Set watchers_;
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_NODE_SERVICE_H_
