// The worker daemon without its flags: owns the parts and connects them to the controller. Plans
// bring the wanted state; reports return the observed state, at once if others wait for it.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_WORKER_NODE_H_
#define WORKER_DAEMON_WORKER_NODE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "worker/daemon/checkpoints/checkpoint_tasks.h"
#include "worker/daemon/checks/node_check.h"
#include "worker/daemon/core/lease.h"
#include "worker/daemon/core/sent_records.h"
#include "worker/daemon/core/standby_answers.h"
#include "worker/daemon/logs/log_requests.h"
#include "worker/daemon/metrics/metrics.h"
#include "worker/daemon/session/session.h"
#include "worker/daemon/side_threads.h"
#include "worker/daemon/state/state_dir.h"
#include "worker/daemon/trainers/node_trainers.h"

namespace paceline {

class WorkerNode : public Session::Owner {
 public:
  struct Options {
    // The constant fields: name, daemon_uid, hardware, addresses, slots, version.
    v1::Hello hello;
    Session::Options session;
    NodeTrainers::Options trainers;
    CheckpointTasks::Options tasks;
    NodeCheck::Options check;
    LogLevel log_level = LogLevel::kInfo;  // Unless the controller sets another.
  };

  // `loop` and `metrics` outlive this object.
  WorkerNode(EventLoop& loop, Options options, NodeIdentity identity, WorkerMetrics& metrics);
  // Requires: closed, or not started; the loop has stopped.
  ~WorkerNode() override = default;

  // Listens for trainers, adopts running ones, and dials the controller. `metrics_address` is
  // reported to the controller as the place where metrics are served.
  absl::Status Start(const std::string& metrics_address);

  // Closes the session, then runs `closed`. The trainers run on.
  void Close(std::function<void()> closed);

  // Any thread. Whether the controller is connected, and when the loop was last seen alive.
  bool ready() const { return ready_; }
  absl::Time last_alive() const { return absl::FromUnixNanos(last_alive_ns_); }

 private:
  // Session::Owner.
  v1::Hello MakeHello() override;
  absl::Status OnWelcome(const v1::Welcome& welcome) override;
  void OnMessage(const v1::ControllerMessage& message) override;
  std::optional<v1::WorkerMessage> NextMessage() override;
  void OnLost() override;
  void OnStandby(const std::string& address, absl::Time sent, const std::string& leader) override;

  void OnPlan(const v1::NodePlan& plan);
  void OnTell(Tell tell);
  void Report();
  // `first` is the delay before the first report.
  void ReportEveryInterval(absl::Duration first);
  v1::NodeReport MakeReport();
  std::optional<v1::NodeSteps> NextSteps();
  void OnLease(const v1::Lease& granted);
  void KeepLonger();
  void CheckLease();
  void ArmLeaseEnd();
  std::string RuntimeDir() const;
  void Poll();
  void PruneLogs();

  // Constant.
  EventLoop& loop_;
  const Options options_;
  WorkerMetrics& metrics_;

  // Owned by the loop.
  std::string metrics_address_;
  NodeIdentity identity_;
  int64_t term_ = 0;  // The highest term of any controller.
  SideThreads threads_;
  NodeTrainers trainers_;
  LogRequests logs_;
  CheckpointTasks tasks_;
  NodeCheck check_;
  Session session_;
  std::optional<EventLoop::TimerId> report_timer_;  // For changes to report soon.
  EventLoop::TimerId interval_timer_ = 0;
  absl::Duration interval_ = absl::Seconds(1);
  std::mt19937_64 random_;
  bool report_due_ = false;
  bool steps_due_ = false;
  int64_t report_number_ = 0;  // Number of the session's latest report.
  SentRecords sent_records_;
  int64_t records_lost_ = 0;  // Lost with connections.
  Lease lease_;
  StandbyAnswers standbys_;
  bool held_on_ = false;  // Extended while nobody leads, since the latest Welcome.
  bool lease_has_run_out_ = false;
  std::optional<EventLoop::TimerId> lease_timer_;  // End of the lease.
  int64_t plan_revision_ = 0;

  std::atomic<bool> ready_{false};
  std::atomic<int64_t> last_alive_ns_{0};  // EventLoop::Now.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_WORKER_NODE_H_
