// The controller's side of proto/worker.proto: the streams of the connected workers.
//
// A session begins with its worker's Hello. A plan replaces the one before, so a slow worker gets
// only the newest; log requests are few and bounded, and a worker that reads none loses its
// session. A closed session waits for at most two seconds for its worker to take the message being
// written. When the same worker (same node_uid) connects again, its older session ends.
//
// Messages arrive as bytes and are weighed before they are parsed (common/parsed_size.h). The next
// one is read when the loop is done with the last, or later if the worker sends too much
// (ReadThrottle): its reports are delayed, too.
//
// Runs on the loop, except for gRPC's own callbacks.
#ifndef CONTROLLER_API_SERVICES_WORKER_SESSIONS_H_
#define CONTROLLER_API_SERVICES_WORKER_SESSIONS_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/core/ids.h"
#include "common/event_loop.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/admission/caller.h"
#include "controller/api/services/held_code.h"
#include "controller/core/requests/dropped_totals.h"
#include "controller/loop/control_loop.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {

class ControllerMetrics;

class WorkerSessions
    : public v1::WorkerService::WithRawCallbackMethod_Session<v1::WorkerService::Service> {
 public:
  // Gets the answer to a log request; UNAVAILABLE if the worker went away first.
  using LogCallback = std::function<void(grpc::Status, const v1::LogData&)>;

  // All pointers outlive this. `find_caller`, called on the loop, returns the caller, or nobody if
  // its proof is no longer valid. While `may_act` returns false, workers are sent nothing: this
  // controller may have been deposed.
  WorkerSessions(EventLoop* loop, ControlLoop* control, const HeldCode* code,
                 ControllerMetrics* metrics, const CallLimits* limits, CallerFinder find_caller,
                 std::function<bool()> may_act)
      : loop_(loop),
        control_(control),
        code_(code),
        metrics_(metrics),
        limits_(limits),
        find_caller_(std::move(find_caller)),
        may_act_(std::move(may_act)) {}

  // Sends the plan if the node is connected and the plan differs from the last one sent.
  void SendPlan(const NodeName& node, const v1::NodePlan& plan);

  // Asks the node for a part of a log, for the caller `reader` (CallerKey); `answer` runs once
  // unless cancelled. Returns a number to cancel it by. UNAVAILABLE if the node is not connected,
  // RESOURCE_EXHAUSTED if it has too many requests, or too many of this reader's.
  grpc::Status RequestLog(const NodeName& node, const std::string& reader, v1::LogRequest request,
                          LogCallback answer, int64_t* id);
  void CancelLog(const NodeName& node, int64_t id);

  // Ends the node's session, if it has one, with UNAUTHENTICATED, reason REVOKED.
  void CloseRevoked(const NodeName& node, const std::string& message);

  // Ends all sessions, because the controller ends.
  void CloseAll();

  // Called by gRPC.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  class Stream;

  EventLoop* const loop_;
  ControlLoop* const control_;
  const HeldCode* const code_;
  ControllerMetrics* const metrics_;
  const CallLimits* const limits_;
  const CallerFinder find_caller_;
  const std::function<bool()> may_act_;

  // On the loop.
  std::set<Stream*> streams_;                  // All open streams.
  std::map<NodeName, Stream*> by_node_;        // Current stream of each node that said hello.
  std::map<std::string, int> by_certificate_;  // Sessions per node with a certificate; never 0.
  DroppedTotals dropped_;                      // Totals over all sessions.
  int64_t next_log_id_ = 1;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_WORKER_SESSIONS_H_
