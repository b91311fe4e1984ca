// AdminService: proto/admin.proto. Each handler goes to the loop, and is finished from there.
#ifndef CONTROLLER_RPC_ADMIN_SERVICE_H_
#define CONTROLLER_RPC_ADMIN_SERVICE_H_

#include "common/event_loop.h"
#include "common/log_options.h"
#include "controller/control_loop.h"
#include "proto/admin.grpc.pb.h"

namespace paceline {

class AdminService : public v1::AdminService::CallbackService {
 public:
  // Both outlive this. The level that the log has at this moment is the controller's own.
  AdminService(EventLoop* loop, ControlLoop* control)
      : loop_(loop), control_(control), own_level_(CurrentLogLevel()) {}

  // Called by gRPC.
  grpc::ServerUnaryReactor* GetLogLevel(grpc::CallbackServerContext* context,
                                        const v1::GetLogLevelRequest* request,
                                        v1::LogLevelReply* reply) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* context,
                                        const v1::SetLogLevelRequest* request,
                                        v1::LogLevelReply* reply) override;

 private:
  // On the loop.
  grpc::Status CheckNode(const std::string& node) const;
  grpc::Status DoSet(const v1::SetLogLevelRequest& request);
  void Describe(const std::string& node, v1::LogLevelReply* reply) const;

  EventLoop* const loop_;
  ControlLoop* const control_;
  const LogLevel own_level_;
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_ADMIN_SERVICE_H_
