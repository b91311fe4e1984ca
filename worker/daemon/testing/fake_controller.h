// A controller that records a worker's messages and sends what a test sets.
//
// Thread-safe. All waits give up after a deadline and fail the test.
#ifndef WORKER_DAEMON_TESTING_FAKE_CONTROLLER_H_
#define WORKER_DAEMON_TESTING_FAKE_CONTROLLER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {

// The answer of a standby that names `leader`; empty: nobody leads.
grpc::Status NotLeader(const std::string& leader);

class FakeController : public v1::WorkerService::Service {
 public:
  static constexpr char kCluster[] = "cluster-1";

  // Serves at `address`; port 0 picks any. `refusal`: see Refuse.
  explicit FakeController(const std::string& address = "127.0.0.1:0",
                          const std::string& cluster = kCluster, int64_t term = 0,
                          std::optional<grpc::Status> refusal = std::nullopt);
  // Ends all sessions.
  ~FakeController() override;

  // host:port.
  const std::string& address() const { return address_; }

  // Ends all sessions and stops serving. What was received before can still be read.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends this plan to all sessions, present and future.
  void SetPlan(const v1::NodePlan& plan) ABSL_LOCKS_EXCLUDED(mutex_);

  // Term for new sessions. Default: that of the constructor; 0: unknown.
  void SetTerm(int64_t term) ABSL_LOCKS_EXCLUDED(mutex_);

  // Report interval for new sessions. Default: 0.2 s.
  void SetReportInterval(absl::Duration interval) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lease length for new sessions. Default: leases are off.
  void SetLease(absl::Duration length) ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops answering reports.
  void StopAnswers() ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new sessions with this status while it is set.
  void Refuse(std::optional<grpc::Status> refusal) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for a report (or a Hello's) that satisfies `wanted`, and returns it.
  v1::NodeReport WaitForReport(const std::function<bool(const v1::NodeReport&)>& wanted)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until `sessions` sessions have begun; returns the last Hello.
  v1::Hello WaitForHello(int sessions = 1) ABSL_LOCKS_EXCLUDED(mutex_);

  // Requests a part of a log and waits for the answer.
  v1::LogData AskForLog(v1::LogRequest request) ABSL_LOCKS_EXCLUDED(mutex_);

  // Step records received so far, of all trainers.
  std::vector<v1::StepRecord> Steps() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The number of dropped records that the worker reported last.
  int64_t Dropped() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Reports received, not counting those in Hellos.
  int Reports() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Stream = grpc::ServerReaderWriter<v1::ControllerMessage, v1::WorkerMessage>;

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override;
  void Send(const v1::ControllerMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string cluster_;
  std::string address_;

  mutable absl::Mutex mutex_;
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;  // The latest open stream.
  std::optional<v1::NodePlan> plan_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> refusal_ ABSL_GUARDED_BY(mutex_);
  v1::Hello hello_ ABSL_GUARDED_BY(mutex_);
  v1::NodeReport report_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, v1::LogData> logs_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::StepRecord> steps_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  int sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  int reports_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration report_interval_ ABSL_GUARDED_BY(mutex_) = absl::Milliseconds(200);
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
  int64_t term_ ABSL_GUARDED_BY(mutex_);
  bool answers_ ABSL_GUARDED_BY(mutex_) = true;
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;

  std::unique_ptr<grpc::Server> server_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TESTING_FAKE_CONTROLLER_H_
