#include "cli/testing/fake_telemetry.h"

namespace paceline {

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

void FakeTelemetry::SetUnimplemented() {
  const absl::MutexLock lock(&mutex_);
  unimplemented_ = true;
}

grpc::Status FakeTelemetry::Known() const {
  return unimplemented_ ? grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no telemetry")
                        : grpc::Status::OK;
}

grpc::Status FakeTelemetry::Get(grpc::ServerContext*, const v1::GetJobHistoryRequest* request,
                                v1::JobHistory* history) {
  const absl::MutexLock lock(&mutex_);
  history->set_job_id(history_.job_id());
  for (const v1::JobHistoryEvent& event : history_.events()) {
    if (event.id() > request->after_id()) *history->add_events() = event;
  }
  return grpc::Status::OK;
}

grpc::Status FakeTelemetry::Watch(grpc::ServerContext*, const v1::WatchJobHistoryRequest* request,
                                  grpc::ServerWriter<v1::JobHistoryEvent>* writer) {
  std::pair<std::vector<v1::JobHistoryEvent>, grpc::Status> script;
  {
    const absl::MutexLock lock(&mutex_);
    watches_.push_back(*request);
    if (!scripts_.empty()) {
      script = std::move(scripts_.front());
      scripts_.pop_front();
    }
  }
  for (const v1::JobHistoryEvent& event : script.first) writer->Write(event);
  return script.second;
}

grpc::Status FakeTelemetry::ListJobs(grpc::ServerContext*, const v1::ListJobTelemetryRequest*,
                                     v1::ListJobTelemetryResponse* response) {
  const absl::MutexLock lock(&mutex_);
  *response = telemetry_;
  return Known();
}

grpc::Status FakeTelemetry::GetRanks(grpc::ServerContext*, const v1::GetJobRanksRequest*,
                                     v1::JobRanks* ranks) {
  const absl::MutexLock lock(&mutex_);
  *ranks = ranks_;
  return Known();
}

grpc::Status FakeTelemetry::GetSeries(grpc::ServerContext*, const v1::GetJobSeriesRequest*,
                                      v1::JobSeries* series) {
  const absl::MutexLock lock(&mutex_);
  *series = series_;
  return Known();
}

}  // namespace paceline
