// All jobs and nodes, and what an event does to them: the controller's decisions in one
// state machine without IO.
//
// Step takes an event, changes the state and returns what the edges must now do, in order:
// everything to be stored comes before everything that tells somebody. The same events at
// the same times give the same actions.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_CLUSTER_H_
#define CONTROLLER_CORE_CLUSTER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/checkpoint_tasks.h"
#include "controller/core/job.h"
#include "controller/core/node.h"
#include "controller/core/placement.h"
#include "controller/core/refusal.h"

namespace paceline {

// Events.
struct JobSubmitted {
  JobRequest request;
};
struct CancelRequested {
  JobId job;
  std::string reason;
  absl::Duration grace;
  bool save = false;  // First; requires: RefuseSave has no objection.
};
// Requires: RefuseSave has no objection.
struct SaveRequested {
  JobId job;
  bool now = false;
};
// Requires: RefuseResume has no objection.
struct ResumeRequested {
  JobRequest request;
  std::string from;  // Directory of a checkpoint; empty: the newest complete one.
};
// Requires: RefuseRemoval has no objection.
struct RemovalRequested {
  JobId job;
  CheckpointKey checkpoint;
};
struct PinRequested {
  JobId job;
  CheckpointKey checkpoint;
  bool pinned = false;
};
// Requires: RefuseLadder has no objection.
struct LadderChanged {
  JobId job;
  std::string strategy;  // Serialized paceline.v1.Strategy.
};
struct ProfileOrdered {
  JobId job;
  JobProfile profile;  // Of MakeProfile.
};
struct NodeConnected {
  NodeFacts facts;
  std::vector<TrainerReport> trainers;
  std::vector<CheckpointTaskResult> task_results = {};
};
struct NodeReported {
  NodeName node;
  std::vector<TrainerReport> trainers;
  std::vector<CheckpointTaskResult> task_results = {};
};
struct NodeDisconnected {
  NodeName node;
};
struct TimePassed {};
using Event = std::variant<JobSubmitted, CancelRequested, SaveRequested, ResumeRequested,
                           RemovalRequested, PinRequested, LadderChanged, ProfileOrdered,
                           NodeConnected, NodeReported, NodeDisconnected, TimePassed>;

// What is to be done after an event. Sorted, without repetitions.
struct Actions {
  // 1. Store these, in one transaction.
  std::set<JobId> store_jobs;
  std::set<JobId> delete_jobs;
  std::set<NodeName> store_nodes;
  // 2. Then send these nodes their plans.
  std::set<NodeName> send_plans;
  // 3. And show these to those who watch; a superset of what is stored.
  std::set<JobId> show_jobs;
  std::set<NodeName> show_nodes;
};

// A trainer that should exist on a node. proto/worker.proto, TrainerPlan.
struct PlannedTrainer {
  TrainerId id;
  const Job* job;  // Valid until the next Step.
  int place = 0;   // Number of its place on the node.
  std::string store_address;
  std::optional<absl::Duration> stop_grace;
};

class Cluster {
 public:
  struct Options {
    // Of the jobs that have ended, the newest so many are kept.
    size_t ended_jobs_kept = 10000;
  };

  explicit Cluster(Options options) : options_(options) {}

  // Takes over what a store held; before the first Step. Nodes count as UNREACHABLE until
  // they say hello, and running stops get their whole time again.
  void Restore(std::vector<Job> jobs, std::vector<Node> nodes, Moment now);

  Actions Step(const Event& event, Moment now);

  // When TimePassed has something to do next; InfiniteFuture() if never. Steady.
  absl::Time NextDeadline() const;

  // Why no set of known nodes could ever hold the job; OK if one could.
  absl::Status CanEverFit(const JobRequest& request) const;

  // The trainers that should exist on the node, by id.
  std::vector<PlannedTrainer> PlanFor(const NodeName& node) const;

  // What the node should do in checkpoint directories.
  std::vector<CheckpointTask> TasksFor(const NodeName& node) const;

  // Whether the checkpoint, which exists, can be removed: CHECKPOINT_PINNED, CHECKPOINT_IN_USE;
  // CHECKPOINT_NEWEST unless `force`.
  std::optional<Refusal> RefuseRemoval(const Job& job, const Checkpoint& checkpoint,
                                       bool force) const;

  // Numbers of the places that jobs hold on the node.
  std::set<int> PlacesUsed(const NodeName& node, Device device) const;

  const std::map<JobId, Job>& jobs() const { return jobs_; }
  const std::map<NodeName, Node>& nodes() const { return nodes_; }

 private:
  void On(const JobSubmitted& event, Moment now, Actions& actions);
  void On(const CancelRequested& event, Moment now, Actions& actions);
  void On(const SaveRequested& event, Moment now, Actions& actions);
  void On(const ResumeRequested& event, Moment now, Actions& actions);
  void On(const RemovalRequested& event, Moment now, Actions& actions);
  void On(const PinRequested& event, Moment now, Actions& actions);
  void On(const LadderChanged& event, Moment now, Actions& actions);
  void On(const ProfileOrdered& event, Moment now, Actions& actions);
  void On(const NodeConnected& event, Moment now, Actions& actions);
  void On(const NodeReported& event, Moment now, Actions& actions);
  void On(const NodeDisconnected& event, Moment now, Actions& actions);
  void On(const TimePassed& event, Moment now, Actions& actions);

  void TakeIn(const NodeName& node, const std::vector<TrainerReport>& trainers, Moment now,
              Actions& actions);
  void TakeIn(const NodeName& node, const std::vector<CheckpointTaskResult>& results, Moment now,
              Actions& actions);
  // Records what a change of `job` asks for.
  void Note(const Job& job, JobChange change, Actions& actions);
  // Starts queued jobs in the order of submission until one has to wait.
  void Schedule(Moment now, Actions& actions);
  // Marks for removal what no job keeps.
  void RetainCheckpoints(Actions& actions);
  // Sends plans to the nodes whose tasks have changed.
  void AssignTasks(Moment now, Actions& actions);
  const TaskAssignment* AssignmentOf(const JobId& job) const;
  void ForgetOldJobs(Actions& actions);
  std::vector<NodeSpace> Spaces(Device device) const;

  const Options options_;
  std::map<JobId, Job> jobs_;
  std::map<NodeName, Node> nodes_;
  std::map<JobId, TaskAssignment> assignments_;  // Of the jobs whose tasks a node does.
  int64_t next_number_ = 1;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CLUSTER_H_
