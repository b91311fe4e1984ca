// The worker daemon without its flags: owns the parts and connects them. Wanted state comes
// from the controller's plans, observed state from processes, rings and sockets;
// core/trainer_set.h decides, this carries out.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_WORKER_NODE_H_
#define WORKER_DAEMON_WORKER_NODE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "worker/daemon/checkpoint_tasks.h"
#include "worker/daemon/core/trainer_set.h"
#include "worker/daemon/fd_poller.h"
#include "worker/daemon/log_requests.h"
#include "worker/daemon/metrics.h"
#include "worker/daemon/node_trainer.h"
#include "worker/daemon/session.h"
#include "worker/daemon/state_dir.h"
#include "worker/daemon/trainer_sockets.h"

namespace paceline {

class WorkerNode : public Session::Owner {
 public:
  struct Options {
    v1::Hello hello;  // What does not change: name, hardware, addresses, slots, version.
    TrainerSetup setup;
    Session::Options session;
    size_t log_segments = 8;  // Kept per trainer.
    TrainerSet::Options trainers;
    CheckpointTasks::Options tasks;
  };

  // `loop` and `metrics` outlive this object.
  WorkerNode(EventLoop& loop, Options options, NodeIdentity identity, WorkerMetrics& metrics);
  // Requires: closed, or not started; the loop runs no more.
  ~WorkerNode() override = default;

  // Listens for trainers, adopts those that run, dials the controller, which is told that the
  // metrics are served at `metrics_address`.
  absl::Status Start(const std::string& metrics_address);

  // Leaves the trainers running and runs `closed` when the session has ended.
  void Close(std::function<void()> closed);

  // Any thread: whether the controller is connected; when the loop was last seen alive.
  bool ready() const { return ready_; }
  absl::Time last_alive() const { return absl::FromUnixNanos(last_alive_ns_); }

 private:
  // Session::Owner.
  v1::Hello MakeHello() override;
  absl::Status OnWelcome(const v1::Welcome& welcome) override;
  void OnMessage(const v1::ControllerMessage& message) override;
  std::optional<v1::WorkerMessage> NextMessage() override;
  void OnLost() override;

  void FindTrainers();
  void RemoveStrayRings() const;
  void Adopt(const TrainerId& id);
  void OnAdopted(NodeTrainer& trainer, const absl::Status& status);
  void OnPlan(const v1::NodePlan& plan);
  void Apply(const TrainerEvent& event);
  void Execute(const std::vector<TrainerAction>& actions);
  void ArmDeadline();
  void Start(const TrainerId& id);
  void Skip(const TrainerId& id);
  void Stop(const TrainerId& id, bool kill);
  void Forget(const TrainerId& id);
  void DeleteDir(const TrainerId& id);
  void Watch(NodeTrainer& trainer);
  void OnProcessEnded(const TrainerId& id);
  void OnEnded(const NodeTrainer& trainer);
  void OnStatus(const TrainerId& id, const v1::TrainerStatus& status);
  void Poll();
  void PruneLogs();
  void Changed();
  void ReportEveryInterval();
  v1::NodeReport MakeReport() const;
  std::optional<v1::StepBatch> NextBatch();
  NodeTrainer* Find(const TrainerId& id);

  // Constant.
  EventLoop& loop_;
  const Options options_;
  WorkerMetrics& metrics_;

  // Owned by the loop.
  std::string metrics_address_;
  NodeIdentity identity_;
  TrainerSet set_;
  std::map<TrainerId, NodeTrainer> trainers_;
  std::map<TrainerId, v1::TrainerPlan> plans_;  // Of the latest plan.
  std::map<TrainerId, int64_t> dropped_;        // Lost step records already counted.
  FdPoller poller_;
  TrainerSockets sockets_;
  LogRequests logs_;
  CheckpointTasks tasks_;
  Session session_;
  std::optional<EventLoop::TimerId> deadline_;
  std::optional<EventLoop::TimerId> report_timer_;  // Of a change.
  EventLoop::TimerId interval_timer_ = 0;
  absl::Duration interval_ = absl::Seconds(1);
  bool report_due_ = false;
  int64_t plan_revision_ = 0;
  std::optional<TrainerId> last_batch_;  // Whose turn was last.

  std::atomic<bool> ready_{false};
  std::atomic<int64_t> last_alive_ns_{0};  // EventLoop::Now.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_WORKER_NODE_H_
