// JobHistoryService: proto/job_history.proto.
//
// A stream has no queue: each reader goes through the job's history at its own pace.
#ifndef CONTROLLER_API_SERVICES_HISTORY_SERVICE_H_
#define CONTROLLER_API_SERVICES_HISTORY_SERVICE_H_

#include <set>

#include "common/event_loop.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/sender.h"
#include "controller/loop/control_loop.h"
#include "proto/job_history.grpc.pb.h"

namespace paceline {

class HistoryService : public v1::JobHistoryService::CallbackService {
 public:
  // All pointers outlive this.
  HistoryService(EventLoop* loop, Sender* sender, const ControlLoop* control, CallLimits* limits)
      : loop_(loop), sender_(sender), control_(control), limits_(limits) {}

  // Called when histories have grown or jobs were deleted. On the loop.
  void WakeWatchers();
  // Ends all streams with `status`. On the loop.
  void CloseStreams(const grpc::Status& status);

  // Called by gRPC.
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetJobHistoryRequest* request,
                                v1::JobHistory* reply) override;
  grpc::ServerWriteReactor<v1::JobHistoryEvent>* Watch(
      grpc::CallbackServerContext* context, const v1::WatchJobHistoryRequest* request) override;

 private:
  class Stream;

  EventLoop* const loop_;
  Sender* const sender_;
  const ControlLoop* const control_;
  CallLimits* const limits_;

  std::set<Stream*> streams_;  // On the loop.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_HISTORY_SERVICE_H_
