// What users do meanwhile: jobs are submitted and run, some of them end and are submitted again,
// and calls of all kinds come at a steady rate.
//
// Its own thread; the public methods are for one other.
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
  int ranks = 50;   // Of each.
  int waiting = 0;  // Jobs beyond those for which there is room.
  // Of every tenth job, which is submitted again when it has ended; the first ones have less of
  // them, each another part.
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
  // By kind of call, and of all of them.
  nlohmann::json Summary() const;
  int64_t errors() const { return errors_; }
  int64_t submitted() const { return submitted_; }

 private:
  void Run();
  // True: done. Every tenth job has so many steps, if any.
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

  // Of the thread, once it runs.
  std::vector<std::string> ids_;
  std::string a_node_;
  std::thread thread_;
};

}  // namespace paceline

#endif  // BENCH_LOAD_API_CALLS_H_
