#include "cli/testing/fake_telemetry.h"

#include "grpcpp/grpcpp.h"
#include "proto/job_history.grpc.pb.h"
#include "proto/telemetry.grpc.pb.h"

namespace paceline {

class FakeTelemetry::Calls : public v1::JobHistoryService::Service,
                             public v1::TelemetryService::Service {
 public:
  explicit Calls(FakeTelemetry& fake) : fake_(fake) {}

  // Answers with the events after the given id.
  grpc::Status Get(grpc::ServerContext*, const v1::GetJobHistoryRequest*, v1::JobHistory*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchJobHistoryRequest*,
                     grpc::ServerWriter<v1::JobHistoryEvent>*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobTelemetryRequest*,
                        v1::ListJobTelemetryResponse*) override;
  grpc::Status GetRanks(grpc::ServerContext*, const v1::GetJobRanksRequest*,
                        v1::JobRanks*) override;
  grpc::Status GetSeries(grpc::ServerContext*, const v1::GetJobSeriesRequest*,
                         v1::JobSeries*) override;
  grpc::Status GetCurves(grpc::ServerContext*, const v1::GetJobCurvesRequest*,
                         v1::JobCurves*) override;

 private:
  FakeTelemetry& fake_;
};

FakeTelemetry::FakeTelemetry() : calls_(std::make_unique<Calls>(*this)) {}

FakeTelemetry::~FakeTelemetry() = default;

void FakeTelemetry::RegisterWith(grpc::ServerBuilder& builder) {
  builder.RegisterService(static_cast<v1::JobHistoryService::Service*>(calls_.get()));
  builder.RegisterService(static_cast<v1::TelemetryService::Service*>(calls_.get()));
}

void FakeTelemetry::SetHistory(v1::JobHistory history) {
  const absl::MutexLock lock(&mutex_);
  history_ = std::move(history);
}

void FakeTelemetry::AddWatch(std::vector<v1::JobHistoryEvent> events, grpc::Status end) {
  const absl::MutexLock lock(&mutex_);
  scripts_.emplace_back(std::move(events), std::move(end));
}

std::vector<v1::WatchJobHistoryRequest> FakeTelemetry::watches() const {
  const absl::MutexLock lock(&mutex_);
  return watches_;
}

void FakeTelemetry::SetTelemetry(v1::ListJobTelemetryResponse telemetry) {
  const absl::MutexLock lock(&mutex_);
  telemetry_ = std::move(telemetry);
}

void FakeTelemetry::SetRanks(v1::JobRanks ranks) {
  const absl::MutexLock lock(&mutex_);
  ranks_ = std::move(ranks);
}

void FakeTelemetry::SetSeries(v1::JobSeries series) {
  const absl::MutexLock lock(&mutex_);
  series_ = std::move(series);
}

void FakeTelemetry::SetCurves(v1::JobCurves curves) {
  const absl::MutexLock lock(&mutex_);
  curves_ = std::move(curves);
}

void FakeTelemetry::SetUnimplemented() {
  const absl::MutexLock lock(&mutex_);
  unimplemented_ = true;
}

grpc::Status FakeTelemetry::Known() const {
  return unimplemented_ ? grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no telemetry")
                        : grpc::Status::OK;
}

grpc::Status FakeTelemetry::Calls::Get(grpc::ServerContext*,
                                       const v1::GetJobHistoryRequest* request,
                                       v1::JobHistory* history) {
  const absl::MutexLock lock(&fake_.mutex_);
  history->set_job_id(fake_.history_.job_id());
  for (const v1::JobHistoryEvent& event : fake_.history_.events()) {
    if (event.id() > request->after_id()) *history->add_events() = event;
  }
  return grpc::Status::OK;
}

grpc::Status FakeTelemetry::Calls::Watch(grpc::ServerContext*,
                                         const v1::WatchJobHistoryRequest* request,
                                         grpc::ServerWriter<v1::JobHistoryEvent>* writer) {
  std::pair<std::vector<v1::JobHistoryEvent>, grpc::Status> script;
  {
    const absl::MutexLock lock(&fake_.mutex_);
    fake_.watches_.push_back(*request);
    if (!fake_.scripts_.empty()) {
      script = std::move(fake_.scripts_.front());
      fake_.scripts_.pop_front();
    }
  }
  for (const v1::JobHistoryEvent& event : script.first) writer->Write(event);
  return script.second;
}

grpc::Status FakeTelemetry::Calls::ListJobs(grpc::ServerContext*,
                                            const v1::ListJobTelemetryRequest*,
                                            v1::ListJobTelemetryResponse* response) {
  const absl::MutexLock lock(&fake_.mutex_);
  *response = fake_.telemetry_;
  return fake_.Known();
}

grpc::Status FakeTelemetry::Calls::GetRanks(grpc::ServerContext*, const v1::GetJobRanksRequest*,
                                            v1::JobRanks* ranks) {
  const absl::MutexLock lock(&fake_.mutex_);
  *ranks = fake_.ranks_;
  return fake_.Known();
}

grpc::Status FakeTelemetry::Calls::GetSeries(grpc::ServerContext*, const v1::GetJobSeriesRequest*,
                                             v1::JobSeries* series) {
  const absl::MutexLock lock(&fake_.mutex_);
  *series = fake_.series_;
  return fake_.Known();
}

grpc::Status FakeTelemetry::Calls::GetCurves(grpc::ServerContext*, const v1::GetJobCurvesRequest*,
                                             v1::JobCurves* curves) {
  const absl::MutexLock lock(&fake_.mutex_);
  *curves = fake_.curves_;
  return fake_.Known();
}

}  // namespace paceline
