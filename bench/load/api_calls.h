// Plays the users: submits jobs, submits those that end again, and makes calls of all kinds at a
// steady rate.
//
// Has a thread of its own; call the public methods from one other thread.
#ifndef BENCH_LOAD_API_CALLS_H_
#define BENCH_LOAD_API_CALLS_H_

#include <grpcpp/security/credentials.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "bench/load/latencies.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "proto/telemetry.grpc.pb.h"

namespace paceline {

struct ApiOptions {
  std::string controller;  // host:port
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  int jobs = 200;
  int ranks = 50;   // Of each job.
  int waiting = 0;  // Jobs beyond those for which there is room.
  // Steps of every tenth job, which is submitted again when it has ended. The first of these jobs
  // have different fractions of them.
  int64_t short_steps = 0;
  double calls_per_second = 50;
};

class ApiCalls {
 public:
  explicit ApiCalls(ApiOptions options);
  // Requires: stopped.
  ~ApiCalls() = default;
  ApiCalls(const ApiCalls&) = delete;
  ApiCalls& operator=(const ApiCalls&) = delete;

  // Submits all jobs; returns their ids, or ends the process.
  std::vector<std::string> SubmitAll();

  void Start();
  void Stop();

  void ClearFigures();
  // Latencies by kind of call, and of all calls.
  nlohmann::json Summary() const;
  int64_t errors() const { return errors_; }
  int64_t submitted() const { return submitted_; }

 private:
  void Run();
  // Returns true on success. `short_steps`: steps of every tenth job; 0: as all others.
  bool Submit(size_t number, int64_t short_steps);
  void SubmitAgain();
  void Call(int64_t number);

  const ApiOptions options_;
  const std::unique_ptr<v1::JobService::Stub> jobs_;
  const std::unique_ptr<v1::NodeService::Stub> nodes_;
  const std::unique_ptr<v1::TelemetryService::Stub> telemetry_;
  std::map<std::string, Latencies> latencies_;  // By name; the names are constant.
  Latencies all_;
  std::atomic<int64_t> errors_{0};
  std::atomic<int64_t> submitted_{0};
  std::atomic<bool> stopping_{false};

  // Owned by the thread, once it runs.
  std::vector<std::string> ids_;
  std::string a_node_;
  std::thread thread_;
};

}  // namespace paceline

#endif  // BENCH_LOAD_API_CALLS_H_
