// NodeService: proto/node.proto.
//
// Each handler runs on the loop and finishes there; a mutation finishes when its change is durable.
#ifndef CONTROLLER_API_SERVICES_NODE_SERVICE_H_
#define CONTROLLER_API_SERVICES_NODE_SERVICE_H_

#include <functional>
#include <string>

#include "common/event_loop.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/lists.h"
#include "controller/api/services/mutations.h"
#include "controller/api/services/watch_stream.h"
#include "controller/loop/control_loop.h"
#include "proto/node.grpc.pb.h"

namespace paceline {

class ControllerMetrics;

class NodeService
    : public v1::NodeService::WithRawCallbackMethod_Watch<v1::NodeService::CallbackService> {
 public:
  // All pointers outlive this.
  NodeService(EventLoop* loop, Sender* sender, Lists* lists, ControlLoop* control,
              ControllerMetrics* metrics, CallLimits* limits)
      : loop_(loop),
        sender_(sender),
        lists_(lists),
        control_(control),
        metrics_(metrics),
        limits_(limits),
        mutations_(control, metrics) {}

  // Called when the watch log has grown. On the loop.
  void WakeWatchers();
  // Ends all streams with `status`. On the loop.
  void CloseStreams(const grpc::Status& status);

  // Called by gRPC.
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetNodeRequest* request, v1::Node* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListNodesRequest* request,
                                 v1::ListNodesResponse* reply) override;
  // Streams bytes, since all watchers of a change are sent the same ones.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* encoded) override;
  grpc::ServerUnaryReactor* History(grpc::CallbackServerContext* context,
                                    const v1::NodeHistoryRequest* request,
                                    v1::NodeHistory* reply) override;
  grpc::ServerUnaryReactor* Cordon(grpc::CallbackServerContext* context,
                                   const v1::CordonNodeRequest* request, v1::Node* reply) override;
  grpc::ServerUnaryReactor* Uncordon(grpc::CallbackServerContext* context,
                                     const v1::UncordonNodeRequest* request,
                                     v1::Node* reply) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainNodeRequest* request,
                                  v1::DrainNodeResponse* reply) override;
  grpc::ServerUnaryReactor* Resume(grpc::CallbackServerContext* context,
                                   const v1::ResumeNodeRequest* request, v1::Node* reply) override;
  grpc::ServerUnaryReactor* DeclareLost(grpc::CallbackServerContext* context,
                                        const v1::DeclareNodeLostRequest* request,
                                        v1::Node* reply) override;
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const v1::CheckNodeRequest* request, v1::Node* reply) override;

 private:
  using Watcher = WatchStream<v1::NodeEvent>;
  using Answer = Mutations::Answer;

  // On the loop; the answer comes when the change is durable.
  void DoCordon(const v1::CordonNodeRequest& request, v1::Node* reply, Answer answer);
  void DoUncordon(const v1::UncordonNodeRequest& request, v1::Node* reply, Answer answer);
  void DoDrain(const v1::DrainNodeRequest& request, v1::DrainNodeResponse* reply, Answer answer);
  void DoResume(const v1::ResumeNodeRequest& request, v1::Node* reply, Answer answer);
  void DoDeclareLost(const v1::DeclareNodeLostRequest& request, v1::Node* reply, Answer answer);
  void DoCheck(const v1::CheckNodeRequest& request, v1::Node* reply, Answer answer);

  // Fails with NODE_NOT_FOUND.
  grpc::Status Find(const std::string& name, const Node** node) const;
  // Runs `mutate` for a new request about the node; answers a repeat with `reply`.
  template <typename Request>
  void Once(const char* verb, const Request& request, const CommitQueue::Then& reply,
            const Answer& answer,
            const std::function<void(const ControlLoop::RequestId&, const Node&)>& mutate);
  // Answers with the node once all changes so far are durable.
  CommitQueue::Then ReplyNode(const std::string& name, v1::Node* reply, const Answer& answer);

  EventLoop* const loop_;
  Sender* const sender_;
  Lists* const lists_;
  ControlLoop* const control_;
  ControllerMetrics* const metrics_;
  CallLimits* const limits_;

  // On the loop.
  Mutations mutations_;
  Watcher::Set watchers_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_NODE_SERVICE_H_
