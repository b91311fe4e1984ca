// TelemetryService: proto/telemetry.proto.
#ifndef CONTROLLER_API_SERVICES_TELEMETRY_SERVICE_H_
#define CONTROLLER_API_SERVICES_TELEMETRY_SERVICE_H_

#include <functional>
#include <string>

#include "common/event_loop.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/lists.h"
#include "controller/loop/control_loop.h"
#include "proto/telemetry.grpc.pb.h"

namespace paceline {

class TelemetryService : public v1::TelemetryService::CallbackService {
 public:
  // All outlive this.
  TelemetryService(EventLoop* loop, Lists* lists, ControlLoop* control, CallLimits* limits)
      : loop_(loop), lists_(lists), control_(control), limits_(limits) {}

  // Called by gRPC.
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobTelemetryRequest* request,
                                     v1::ListJobTelemetryResponse* reply) override;
  grpc::ServerUnaryReactor* GetRanks(grpc::CallbackServerContext* context,
                                     const v1::GetJobRanksRequest* request,
                                     v1::JobRanks* reply) override;
  grpc::ServerUnaryReactor* GetSteps(grpc::CallbackServerContext* context,
                                     const v1::GetJobStepsRequest* request,
                                     v1::JobSteps* reply) override;
  grpc::ServerUnaryReactor* GetSeries(grpc::CallbackServerContext* context,
                                      const v1::GetJobSeriesRequest* request,
                                      v1::JobSeries* reply) override;
  grpc::ServerUnaryReactor* GetCurves(grpc::CallbackServerContext* context,
                                      const v1::GetJobCurvesRequest* request,
                                      v1::JobCurves* reply) override;

 private:
  // A job and its telemetry; null: none.
  struct Known {
    const Job& job;
    const MeasuredJob* measured;
    const JobStragglers* stragglers;
  };

  // Finishes the call, on the loop, with what `describe` makes of the job that is meant; or at once
  // with `valid`, if that is an error.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const grpc::Status& valid,
                                   const std::string& job,
                                   std::function<void(const Known&)> describe);

  EventLoop* const loop_;
  Lists* const lists_;
  ControlLoop* const control_;
  CallLimits* const limits_;
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_TELEMETRY_SERVICE_H_
