#include "controller/api/services/telemetry_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "controller/api/admission/caller.h"
#include "controller/api/services/find_job.h"
#include "controller/wire/convert_telemetry.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr int kPartsOfTelemetry = 4;  // Cost of describing a job's telemetry, in ranks of a job.

grpc::Status CheckNotNegative(double value, const char* field) {
  if (value >= 0) return grpc::Status::OK;
  return FieldsError("TELEMETRY_REQUEST_INVALID", "the request is impossible",
                     {{field, "must not be negative"}});
}

}  // namespace

grpc::ServerUnaryReactor* TelemetryService::Answer(grpc::CallbackServerContext* context,
                                                   const grpc::Status& valid,
                                                   const std::string& job,
                                                   std::function<void(const Known&)> describe) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!valid.ok()) {
    reactor->Finish(valid);
    return reactor;
  }
  loop_->Post([this, reactor, job, caller = CallerOf(*context), describe = std::move(describe)] {
    const Job* meant = nullptr;
    const grpc::Status found = FindJob(caller, control_->cluster(), job, &meant);
    if (found.ok()) {
      const JobId& id = meant->request.id;
      describe({*meant, control_->steps().Find(id), control_->stragglers().Find(id)});
      limits_->Charge(caller, static_cast<int>(meant->ranks.size()), EventLoop::Now());
    }
    reactor->Finish(found);
  });
  return reactor;
}

grpc::ServerUnaryReactor* TelemetryService::ListJobs(grpc::CallbackServerContext* context,
                                                     const v1::ListJobTelemetryRequest*,
                                                     v1::ListJobTelemetryResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    std::vector<JobId> jobs;
    for (const auto& [id, job] : control_->cluster().jobs()) {
      if (HasTelemetry(job) && MaySee(caller, job.submitter)) jobs.push_back(id);
    }
    const auto add = [=](const JobId& id) {
      const Job* job = control_->cluster().FindJob(id);
      if (job == nullptr || !HasTelemetry(*job)) return 1;
      *reply->add_jobs() =
          DescribeTelemetry(*job, control_->steps().Find(id), control_->stragglers().Find(id));
      return kPartsOfTelemetry;
    };
    lists_->Make<JobId>(caller, std::move(jobs), add, reactor);
  });
  return reactor;
}

grpc::ServerUnaryReactor* TelemetryService::GetRanks(grpc::CallbackServerContext* context,
                                                     const v1::GetJobRanksRequest* request,
                                                     v1::JobRanks* reply) {
  const grpc::Status valid = CheckNotNegative(request->slowest(), "slowest");
  return Answer(context, valid, request->job(), [=](const Known& known) {
    *reply = DescribeRanks(known.job, known.measured, known.stragglers, request->slowest());
  });
}

grpc::ServerUnaryReactor* TelemetryService::GetSteps(grpc::CallbackServerContext* context,
                                                     const v1::GetJobStepsRequest* request,
                                                     v1::JobSteps* reply) {
  grpc::Status valid = CheckNotNegative(request->steps(), "steps");
  if (valid.ok()) valid = CheckNotNegative(request->rows(), "rows");
  const int rows =
      request->rows() == 0 ? kDefaultStepRows : std::min(request->rows(), kMaxStepRows);
  return Answer(context, valid, request->job(), [=](const Known& known) {
    *reply = DescribeSteps(known.job, known.measured, request->steps(), rows);
  });
}

grpc::ServerUnaryReactor* TelemetryService::GetSeries(grpc::CallbackServerContext* context,
                                                      const v1::GetJobSeriesRequest* request,
                                                      v1::JobSeries* reply) {
  const grpc::Status valid = CheckNotNegative(request->minutes(), "minutes");
  const absl::Time since = request->minutes() == 0
                               ? absl::InfinitePast()
                               : absl::Now() - absl::Minutes(request->minutes());
  return Answer(context, valid, request->job(), [=](const Known& known) {
    *reply = DescribeSeries(known.job, known.measured, since);
  });
}

grpc::ServerUnaryReactor* TelemetryService::GetCurves(grpc::CallbackServerContext* context,
                                                      const v1::GetJobCurvesRequest* request,
                                                      v1::JobCurves* reply) {
  return Answer(context, grpc::Status::OK, request->job(), [=](const Known& known) {
    *reply = DescribeCurves(known.job, control_->steps().curves().Find(known.job.request.id));
  });
}

}  // namespace paceline
