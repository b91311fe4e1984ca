// A node of the load: a worker daemon's side of proto/worker.proto over a connection of its own,
// with simulated trainers. It dials, greets, reports every second and at changes, sends the steps
// of its ranks after each report, and dials again with the daemon's own back-off.
//
//            dial, delay over          Welcome
//   AWAY ──────────────────▶ GREETING ───────▶ CONNECTED
//     ▲    lost, refused, silent   │    lost      │
//     ╰────────────────────────────╯──────────────╯
//
// Thread-safe: gRPC's callbacks come on its own threads.
#ifndef BENCH_LOAD_SIMULATED_NODE_H_
#define BENCH_LOAD_SIMULATED_NODE_H_

#include <grpcpp/security/credentials.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bench/load/simulated_trainers.h"
#include "bench/load/totals.h"
#include "common/core/backoff.h"
#include "proto/worker.grpc.pb.h"
#include "worker/daemon/core/sent_records.h"

namespace paceline {

class SimulatedNode {
 public:
  struct Options {
    std::string controller;  // host:port
    std::string name;
    std::shared_ptr<grpc::ChannelCredentials> credentials;
    int ranks = 8;
    double steps_per_second = 10;
    uint64_t seed = 0;
  };

  // The pointers outlive the node.
  SimulatedNode(Options options, Totals* totals, Storm* storm);
  // Requires: stopped.
  ~SimulatedNode() = default;
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  // To be called every 100 ms, by one thread.
  void Tick(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Cuts the connection, like a network fault.
  void Cut() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sets whether steps are made; reports go on without them.
  void SetSteps(bool on) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the session for good; returns when it is gone.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Stream;
  enum class State { kAway, kGreeting, kConnected };
  // What to send after releasing the mutex.
  struct Send {
    Stream* stream = nullptr;
    const v1::WorkerMessage* message = nullptr;
  };

  void Dial(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMessage(const v1::ControllerMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnReadFailed(Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWritten(Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Deletes it.
  void OnDone(Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLease(int64_t number, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time NextReport(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next message, if it is due and none is being sent.
  Send Next(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null if there are no steps to send.
  const v1::WorkerMessage* NextSteps() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeReport(absl::Time now, v1::NodeReport* report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Do(const Send& send);

  const Options options_;
  Totals* const totals_;
  Storm* const storm_;

  absl::Mutex mutex_;
  SimulatedTrainers trainers_ ABSL_GUARDED_BY(mutex_);
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  State state_ ABSL_GUARDED_BY(mutex_) = State::kAway;
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Until OnDone.
  // The channel of this stream or of the previous one: gRPC's last channel must not be destroyed in
  // a callback, whose thread would wait for itself (github.com/grpc/grpc/pull/32584).
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // The stream is no longer read.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool makes_steps_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Time due_ ABSL_GUARDED_BY(mutex_);  // Time of the next dial, or limit of the greeting.
  absl::Time next_report_ ABSL_GUARDED_BY(mutex_);
  absl::Duration interval_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  bool report_due_ ABSL_GUARDED_BY(mutex_) = false;
  bool steps_due_ ABSL_GUARDED_BY(mutex_) = false;
  std::string cluster_ ABSL_GUARDED_BY(mutex_);
  int64_t plan_revision_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t report_number_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // As counted in the totals.

  std::deque<std::pair<int64_t, absl::Time>> unanswered_ ABSL_GUARDED_BY(mutex_);  // Reports.
  SentRecords sent_records_ ABSL_GUARDED_BY(mutex_);
  int64_t records_lost_ ABSL_GUARDED_BY(mutex_) = 0;  // Dropped, or lost with a connection.

  // The report being sent; kept so that its parts can be reused.
  v1::WorkerMessage report_ ABSL_GUARDED_BY(mutex_);
  v1::WorkerMessage steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // BENCH_LOAD_SIMULATED_NODE_H_
