// AutomationService: proto/node.proto.
#ifndef CONTROLLER_API_SERVICES_AUTOMATION_SERVICE_H_
#define CONTROLLER_API_SERVICES_AUTOMATION_SERVICE_H_

#include "common/event_loop.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/mutations.h"
#include "controller/loop/control_loop.h"
#include "proto/node.grpc.pb.h"

namespace paceline {

class ControllerMetrics;

class AutomationService : public v1::AutomationService::CallbackService {
 public:
  // All pointers outlive this.
  AutomationService(EventLoop* loop, ControlLoop* control, ControllerMetrics* metrics,
                    CallLimits* limits)
      : loop_(loop), control_(control), limits_(limits), mutations_(control, metrics) {}

  // Called by gRPC.
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetAutomationStatusRequest* request,
                                      v1::AutomationStatus* reply) override;
  grpc::ServerUnaryReactor* Pause(grpc::CallbackServerContext* context,
                                  const v1::PauseAutomationRequest* request,
                                  v1::AutomationStatus* reply) override;
  grpc::ServerUnaryReactor* Resume(grpc::CallbackServerContext* context,
                                   const v1::ResumeAutomationRequest* request,
                                   v1::AutomationStatus* reply) override;

 private:
  // On the loop.
  void Describe(v1::AutomationStatus* reply) const;
  // Applies the event of a new request, and answers once it is durable.
  void Apply(const std::string& request_id, uint64_t fingerprint, const Event& event,
             v1::AutomationStatus* reply, const Mutations::Answer& answer);

  EventLoop* const loop_;
  ControlLoop* const control_;
  CallLimits* const limits_;
  Mutations mutations_;  // On the loop.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_AUTOMATION_SERVICE_H_
