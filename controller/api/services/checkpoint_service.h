// CheckpointService: proto/checkpoint.proto.
//
// Each handler runs on the loop and finishes there.
#ifndef CONTROLLER_API_SERVICES_CHECKPOINT_SERVICE_H_
#define CONTROLLER_API_SERVICES_CHECKPOINT_SERVICE_H_

#include <functional>
#include <string>

#include "common/event_loop.h"
#include "common/identity/principal.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/find_job.h"
#include "controller/api/services/mutations.h"
#include "controller/loop/control_loop.h"
#include "proto/checkpoint.grpc.pb.h"

namespace paceline {

class ControllerMetrics;

class CheckpointService : public v1::CheckpointService::CallbackService {
 public:
  // All pointers outlive this.
  CheckpointService(EventLoop* loop, ControlLoop* control, ControllerMetrics* metrics,
                    CallLimits* limits)
      : loop_(loop), control_(control), limits_(limits), mutations_(control, metrics) {}

  // Called by gRPC.
  grpc::ServerUnaryReactor* Save(grpc::CallbackServerContext* context,
                                 const v1::SaveCheckpointRequest* request, v1::Job* reply) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetCheckpointRequest* request,
                                v1::Checkpoint* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListCheckpointsRequest* request,
                                 v1::ListCheckpointsResponse* reply) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const v1::DeleteCheckpointRequest* request,
                                   v1::Checkpoint* reply) override;
  grpc::ServerUnaryReactor* Pin(grpc::CallbackServerContext* context,
                                const v1::PinCheckpointRequest* request,
                                v1::Checkpoint* reply) override;

 private:
  using Answer = Mutations::Answer;

  // On the loop; the answer comes when the change is durable.
  void DoSave(const Principal& caller, const v1::SaveCheckpointRequest& request, v1::Job* reply,
              const Answer& answer);
  void DoDelete(const Principal& caller, const v1::DeleteCheckpointRequest& request,
                v1::Checkpoint* reply, const Answer& answer);
  void DoPin(const Principal& caller, const v1::PinCheckpointRequest& request,
             v1::Checkpoint* reply, const Answer& answer);
  grpc::Status DoList(const Principal& caller, const v1::ListCheckpointsRequest& request,
                      v1::ListCheckpointsResponse* reply) const;
  // As Mutations::Once, for a request about the named checkpoint.
  void Once(
      const Principal& caller, const std::string& request_id, uint64_t fingerprint,
      const std::string& name, v1::Checkpoint* reply, const Answer& answer,
      const std::function<void(const ControlLoop::RequestId&, const NamedCheckpoint&)>& mutate);
  CommitQueue::Then ReplyTo(const JobId& job, const CheckpointKey& key, v1::Checkpoint* reply,
                            const Answer& answer);

  EventLoop* const loop_;
  ControlLoop* const control_;
  CallLimits* const limits_;

  // On the loop.
  Mutations mutations_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_CHECKPOINT_SERVICE_H_
