// AdminService: proto/admin.proto. Each handler runs on the loop and finishes there, except for
// Backup, which has its own thread (backup.h).
#ifndef CONTROLLER_API_SERVICES_ADMIN_SERVICE_H_
#define CONTROLLER_API_SERVICES_ADMIN_SERVICE_H_

#include <string>
#include <utility>

#include "common/event_loop.h"
#include "common/log_options.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/backup.h"
#include "controller/loop/control_loop.h"
#include "proto/admin.grpc.pb.h"

namespace paceline {

class AdminService : public v1::AdminService::CallbackService {
 public:
  // All outlive this. Takes the log's present level as the controller's own. `state_file`: as for
  // Backups.
  AdminService(EventLoop* loop, ControlLoop* control, CallLimits* limits, std::string state_file)
      : loop_(loop),
        control_(control),
        limits_(limits),
        own_level_(CurrentLogLevel()),
        backups_(std::move(state_file), limits) {}

  // Called by gRPC.
  grpc::ServerUnaryReactor* GetLogLevel(grpc::CallbackServerContext* context,
                                        const v1::GetLogLevelRequest* request,
                                        v1::LogLevelReply* reply) override;
  grpc::ServerUnaryReactor* SetLogLevel(grpc::CallbackServerContext* context,
                                        const v1::SetLogLevelRequest* request,
                                        v1::LogLevelReply* reply) override;
  grpc::ServerWriteReactor<v1::BackupChunk>* Backup(grpc::CallbackServerContext* context,
                                                    const v1::BackupRequest* request) override;

 private:
  // On the loop.
  grpc::Status CheckNode(const std::string& node) const;
  grpc::Status DoSet(const v1::SetLogLevelRequest& request);
  void Describe(const std::string& node, v1::LogLevelReply* reply) const;

  EventLoop* const loop_;
  ControlLoop* const control_;
  CallLimits* const limits_;
  const LogLevel own_level_;
  Backups backups_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_ADMIN_SERVICE_H_
