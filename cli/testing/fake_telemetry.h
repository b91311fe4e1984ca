// Job histories and telemetry of the fake controller (fake_controller.h).
//
// Watches are scripts, one per call: their events are sent, then the stream ends with the script's
// status.
//
// Thread-safe.
#ifndef CLI_TESTING_FAKE_TELEMETRY_H_
#define CLI_TESTING_FAKE_TELEMETRY_H_

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/status.h"
#include "proto/job_history.pb.h"
#include "proto/telemetry.pb.h"

namespace grpc {
class ServerBuilder;
}

namespace paceline {

class FakeTelemetry {
 public:
  FakeTelemetry();
  ~FakeTelemetry();
  void RegisterWith(grpc::ServerBuilder& builder);

  void SetHistory(v1::JobHistory history) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddWatch(std::vector<v1::JobHistoryEvent> events, grpc::Status end)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<v1::WatchJobHistoryRequest> watches() const ABSL_LOCKS_EXCLUDED(mutex_);

  void SetTelemetry(v1::ListJobTelemetryResponse telemetry) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetRanks(v1::JobRanks ranks) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetSeries(v1::JobSeries series) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetCurves(v1::JobCurves curves) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes calls about telemetry UNIMPLEMENTED.
  void SetUnimplemented() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The service for gRPC.
  class Calls;

  grpc::Status Known() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<Calls> calls_;
  mutable absl::Mutex mutex_;
  v1::JobHistory history_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<std::vector<v1::JobHistoryEvent>, grpc::Status>> scripts_
      ABSL_GUARDED_BY(mutex_);
  std::vector<v1::WatchJobHistoryRequest> watches_ ABSL_GUARDED_BY(mutex_);
  v1::ListJobTelemetryResponse telemetry_ ABSL_GUARDED_BY(mutex_);
  v1::JobRanks ranks_ ABSL_GUARDED_BY(mutex_);
  v1::JobSeries series_ ABSL_GUARDED_BY(mutex_);
  v1::JobCurves curves_ ABSL_GUARDED_BY(mutex_);
  bool unimplemented_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_TELEMETRY_H_
