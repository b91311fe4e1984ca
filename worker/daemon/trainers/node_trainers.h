// All trainers of this node: finds what an earlier daemon left, and starts, watches, stops and
// forgets trainers as core/trainer_set.h decides from the controller's plans.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_TRAINERS_NODE_TRAINERS_H_
#define WORKER_DAEMON_TRAINERS_NODE_TRAINERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "worker/daemon/core/lease.h"
#include "worker/daemon/core/trainer_set.h"
#include "worker/daemon/metrics/metrics.h"
#include "worker/daemon/side_threads.h"
#include "worker/daemon/trainers/fd_poller.h"
#include "worker/daemon/trainers/job_codes.h"
#include "worker/daemon/trainers/left_steps.h"
#include "worker/daemon/trainers/node_trainer.h"
#include "worker/daemon/trainers/ring_tail.h"
#include "worker/daemon/trainers/standbys.h"
#include "worker/daemon/trainers/trainer_sockets.h"

namespace paceline {

class NodeTrainers {
 public:
  struct Options {
    TrainerSetup setup;
    TrainerSet::Options set;
    size_t log_segments = 8;  // Number kept per trainer.
  };

  // `tell` is called when the controller should hear of a change; Report() then has it. `loop`,
  // `metrics` and `threads` must outlive this object.
  NodeTrainers(EventLoop& loop, Options options, WorkerMetrics& metrics, SideThreads& threads,
               std::function<void(Tell)> tell);
  NodeTrainers(const NodeTrainers&) = delete;
  NodeTrainers& operator=(const NodeTrainers&) = delete;

  // Listens for trainers and adopts those that run.
  absl::Status Start();

  // The node's trainers in the controller's latest plan.
  void SetPlan(const v1::NodePlan& plan);

  // Checks what no trainer reports: rings and processes. Call it ten times a second. `now`, here
  // and below: BootNow.
  void Poll(absl::Time now);

  // Kills the trainers that must not outlive `lease`, once it has run out.
  void Fence(const Lease& lease, absl::Time now);

  // Deletes old parts of running trainers' logs, and marks where the logs end.
  void PruneLogs();

  google::protobuf::RepeatedPtrField<v1::TrainerReport> Report() const;

  // Returns up to kMaxRecords unsent steps: first those of forgotten trainers, then a batch of each
  // trainer that has any. Trainers take turns, so that those with short steps do not delay others.
  static constexpr int kMaxRecords = 4096;
  std::optional<v1::NodeSteps> NextSteps();

  // Requests for jobs' code and the controller's answers (job_codes.h).
  std::optional<v1::CodeRequest> NextCodeRequest() { return codes_.NextRequest(); }
  void OnCode(const v1::CodeData& data) { codes_.OnData(data); }
  void OnSessionLost() { codes_.OnLost(); }

  // Number of step records, since the start, that will never be sent.
  int64_t dropped() const { return dropped_; }

  bool Runs(const TrainerId& id) const;
  int Running() const;

 private:
  void FindTrainers();
  void RemoveStrayRings() const;
  void Adopt(const TrainerId& id);
  void OnAdopted(NodeTrainer& trainer, const absl::Status& status);
  void Apply(const TrainerEvent& event);
  void Execute(const std::vector<TrainerAction>& actions);
  void ArmDeadline();
  void Start(const TrainerId& id);
  void TakeCode(NodeTrainer& trainer);
  void Launch(NodeTrainer& trainer);
  void OnStarted(NodeTrainer& trainer);
  void EndLater(const NodeTrainer& trainer);
  void Skip(const TrainerId& id);
  void Stop(const TrainerId& id, bool kill);
  void StopWhenAsked(const TrainerId& id, absl::Time latest);
  void Forget(const TrainerId& id);
  void LeaveSteps(const TrainerId& id, RingTail& ring);
  void DeleteDir(const TrainerId& id);
  void OnCodeSettled(const JobId& job);
  void RemoveUnusedCode(absl::Time now);
  void RemoveDirs();
  void Watch(NodeTrainer& trainer);
  void OnProcessEnded(const TrainerId& id);
  void OnEnded(const NodeTrainer& trainer);
  TrainerSockets::Peers Peers();
  void OnStatus(const TrainerId& id, const v1::TrainerStatus& status);
  void SaveWantedStacks(NodeTrainer& trainer);
  void CountDropped(int64_t records);
  void Show(const NodeTrainer& trainer, const v1::TrainerReport& report);
  NodeTrainer* Find(const TrainerId& id);

  // Constant.
  EventLoop& loop_;
  const Options options_;
  WorkerMetrics& metrics_;
  SideThreads& threads_;
  const std::function<void(Tell)> tell_;

  // Owned by the loop.
  TrainerSet set_;
  std::map<TrainerId, NodeTrainer> trainers_;
  std::map<TrainerId, v1::TrainerPlan> plans_;  // From the latest plan.
  std::map<TrainerId, TrainerId> shown_as_;     // Memberships whose metrics are shown.
  Standbys standbys_;
  JobCodes codes_;
  FdPoller poller_;
  TrainerSockets sockets_;
  std::optional<EventLoop::TimerId> deadline_;
  std::optional<TrainerId> last_batch_;  // The trainer whose turn was last.
  LeftSteps left_;
  int64_t dropped_ = 0;
  bool removing_ = false;      // Dirs set aside are being removed.
  bool remove_again_ = false;  // More were set aside meanwhile.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_NODE_TRAINERS_H_
