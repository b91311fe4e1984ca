// The controller's heart: passes events to the cluster's state machine and carries out the actions
// it returns, in the order store, send, show.
//
//   event ──▶ Cluster::Step ──▶ Actions ──▶ CommitQueue ──▶ plans to workers
//               ▲      │                                └─▶ changes to watchers, and to the log
//               │      ▼                                └─▶ the answer to the caller
//   steps ──▶ Stragglers, StepHistory
//
// Decisions about stragglers become events of their own, which are stored in one transaction with
// the decision. So are the events of the jobs' histories, with the changes they describe.
//
// Runs on the loop.
#ifndef CONTROLLER_LOOP_CONTROL_LOOP_H_
#define CONTROLLER_LOOP_CONTROL_LOOP_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/event_loop.h"
#include "common/turns.h"
#include "controller/api/services/watch_log.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/job_histories.h"
#include "controller/core/history/transition_finder.h"
#include "controller/core/job/progress_throttle.h"
#include "controller/core/requests/request_log.h"
#include "controller/core/steps/step_history.h"
#include "controller/core/stragglers/job/stragglers.h"
#include "controller/loop/commit_queue.h"
#include "controller/store/records.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

class ControllerMetrics;

// Shortest time between updates of a job that show nothing but progress: see ProgressThrottle.
inline constexpr absl::Duration kProgressPeriod = absl::Seconds(1);

class ControlLoop {
 public:
  // A mutation's identity: see RequestLog.
  struct RequestId {
    std::string id;
    uint64_t fingerprint = 0;
    CheckpointKey checkpoint = {};  // That the request is about, if any.
  };

  // Called on the loop, and only for what is durable.
  struct Listeners {
    std::function<void(const NodeName&, const v1::NodePlan&)> plan;
    std::function<void()> jobs_changed;              // job_log() has grown; see kProgressPeriod.
    std::function<void()> nodes_changed;             // node_log() has grown.
    std::function<void()> histories_changed;         // They have grown, or a job is deleted.
    std::function<void(absl::Status)> store_failed;  // The process must end.
  };

  // All pointers outlive this.
  ControlLoop(EventLoop* loop, StateStore* store, ControllerMetrics* metrics, StoredState state,
              const Cluster::Options& options, const StragglerOptions& stragglers = {});
  ~ControlLoop();

  // Requires: no event has been applied yet.
  void SetListeners(Listeners listeners) { listeners_ = std::move(listeners); }

  // Takes the event in.
  void Apply(const Event& event);

  // As Apply, for a client's mutation of `job`, and remembers the request. `then` runs once the
  // effects are durable, or could not be stored.
  void ApplyRequest(const RequestId& request, const JobId& job, const Event& event,
                    CommitQueue::Then then);

  // Takes steps that a trainer on the node has finished, oldest first.
  void TakeSteps(const NodeName& node, const TrainerId& trainer, absl::Span<const StepTimes> steps);

  // As Stragglers::RefuseApply. Requires: the job exists.
  std::optional<Refusal> RefuseAdvice(const JobId& job, int64_t advice);
  // As ApplyRequest: carries out the advice. Requires: RefuseAdvice returned nothing.
  void ApplyAdvice(const RequestId& request, const JobId& job, int64_t advice,
                   const std::string& by, CommitQueue::Then then);

  // Stores what others keep beside the cluster, and remembers the request, if any. `then` as in
  // ApplyRequest.
  void Store(const std::optional<RequestId>& request, WriteBatch batch, CommitQueue::Then then);

  // Runs `then` once everything so far is durable, as in ApplyRequest.
  void WhenDurable(CommitQueue::Then then) { commits_->Add({}, std::move(then)); }

  const Cluster& cluster() const { return cluster_; }
  const Stragglers& stragglers() const { return stragglers_; }
  const StepHistory& steps() const { return steps_; }
  const JobHistories& histories() const { return histories_; }
  const RequestLog& requests() const { return requests_; }
  const std::string& cluster_id() const { return cluster_id_; }
  int64_t term() const { return term_; }
  const WatchLog<v1::JobEvent>& job_log() const { return job_log_; }
  const WatchLog<v1::NodeEvent>& node_log() const { return node_log_; }

  // Messages for clients, in the present state.
  v1::Job Describe(const Job& job) const;
  v1::Node Describe(const Node& node) const;
  // The trainers and tasks that the node should run.
  v1::NodePlan PlanFor(const NodeName& node) const;

  // Log level of the node's daemon, for as long as this controller runs.
  v1::LogLevel LogLevelOf(const NodeName& node) const;
  void SetLogLevel(const NodeName& node, v1::LogLevel level);

  static Moment Now();

 private:
  // Adds the remembered request to the batch.
  WriteBatch Remember(const RequestId& request, const JobId& job);
  // Adds the deletion of requests that are no longer remembered to the batch.
  void ForgetRequests(WriteBatch& batch);
  // Refreshes the metrics periodically.
  void RefreshMetrics();
  // Steps the cluster, and queues the effects together with `batch`.
  void Run(const Event& event, WriteBatch batch, CommitQueue::Then then);
  // Carries out decisions about stragglers, and queues all effects together.
  void Carry(Actions actions, StragglerActions decided, WriteBatch batch, CommitQueue::Then then);
  // Adds changes of the histories to the batch.
  void Write(const HistoryActions& events, WriteBatch& batch) const;
  void ShowHistories(const HistoryActions& events, bool deleted);
  void Show(const Actions& actions);
  // Shows the job unless a change of it is not durable yet; then it is shown with that change.
  void ShowJob(const JobId& id);
  void ShowNode(const NodeName& name);
  // Shows progress that was held back, when its time has come.
  void ArmProgressTimer();
  void ArmTimer();

  EventLoop* const loop_;
  ControllerMetrics* const metrics_;
  const std::string cluster_id_;
  const int64_t term_;

  Cluster cluster_;
  Stragglers stragglers_;
  StepHistory steps_;
  TransitionFinder transitions_;
  JobHistories histories_;
  RequestLog requests_;
  WatchLog<v1::JobEvent> job_log_;
  WatchLog<v1::NodeEvent> node_log_;
  // Number of changes that are not durable yet. Jobs and nodes are shown in their present state, so
  // only once everything that changed them is durable.
  std::map<JobId, int> job_changes_;
  std::map<NodeName, int> node_changes_;
  // A job that is not in here is shown as ADDED.
  std::map<JobId, std::string> shown_jobs_;  // With their submitters.
  std::set<NodeName> shown_nodes_;
  ProgressThrottle throttle_;
  Turns refreshes_;  // For metrics.
  EventLoop::TimerId progress_timer_ = 0;
  absl::Time progress_due_ = absl::InfiniteFuture();
  std::map<NodeName, v1::LogLevel> log_levels_;  // Only levels that were asked for.
  Listeners listeners_;
  EventLoop::TimerId timer_ = 0;
  absl::Time timer_due_ = absl::InfiniteFuture();
  std::unique_ptr<CommitQueue> commits_;
};

}  // namespace paceline

#endif  // CONTROLLER_LOOP_CONTROL_LOOP_H_
