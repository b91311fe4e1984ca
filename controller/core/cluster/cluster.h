// All jobs and nodes, and what an event does to them: the controller's decisions in one
// state machine without IO.
//
// Step takes an event, changes the state and returns what the edges must now do, in order: all that
// is to be stored comes before anything is sent. The same events at the same times give the same
// actions.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_CLUSTER_CLUSTER_H_
#define CONTROLLER_CORE_CLUSTER_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/checkpoint/checkpoint_tasks.h"
#include "controller/core/cluster/job_table.h"
#include "controller/core/cluster/look_throttle.h"
#include "controller/core/cluster/node_table.h"
#include "controller/core/job/job.h"
#include "controller/core/job/job_events.h"
#include "controller/core/node/automation.h"
#include "controller/core/node/drain.h"
#include "controller/core/node/node.h"
#include "controller/core/node/node_events.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/recovery.h"
#include "controller/core/requests/refusal.h"
#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/node_set.h"
#include "controller/core/schedule/placement.h"
#include "controller/core/schedule/schedule.h"

namespace paceline {

// Events: those of job_events.h and node_events.h, and that time has passed.
struct TimePassed {};
using Event =
    std::variant<JobSubmitted, CancelRequested, SaveRequested, ResumeRequested, RemovalRequested,
                 PinRequested, PlanChanged, ReplacementRequested, ReplacementWithdrawn,
                 RanksGivenUp, LabelsChanged, ProfileOrdered, NodeConnected, NodeReported,
                 NodeDisconnected, HoldRequested, UncordonRequested, NodeResumeRequested,
                 LossDeclared, CheckRequested, AutomaticDrainRequested, AutomationPauseRequested,
                 AutomationResumeRequested, TimePassed>;

// What is to be done after an event. Sorted, without repetitions.
struct Actions {
  // 1. Store these, in one transaction.
  std::set<JobId> store_jobs;
  std::set<JobId> delete_jobs;
  std::set<NodeName> store_nodes;
  bool store_automation = false;
  // 2. Then send these nodes their plans.
  std::set<NodeName> send_plans;
  // 3. Then look at these and show them to watchers. Those in `changed_jobs`, all of which are in
  // `show_jobs`, are shown at once; the others have only made progress. What else happened in large
  // jobs waits for its turn (LookThrottle).
  std::set<JobId> show_jobs;
  std::set<JobId> changed_jobs;
  std::set<NodeName> show_nodes;
  // Of show_nodes: those whose state is another.
  std::set<NodeName> changed_nodes;

  // Adds the actions of a later event, so that both are done together.
  void Merge(Actions later);
};

// A trainer that should exist on a node. proto/worker.proto, TrainerPlan.
struct PlannedTrainer {
  TrainerId id;
  const Job* job;  // Valid until the next Step.
  int slot = 0;    // Number of its slot on the node.
  std::string store_address;
  std::optional<absl::Duration> stop_grace;
  Membership membership;
  bool save_stacks = false;
  bool leased = false;
  bool restores = false;  // It starts from the job's checkpoint, if there is one.
};

// What the scheduler knows of a job or node. It need not run while these stay the same.
struct JobMark {
  std::tuple<JobState, Generation, bool, bool, bool> state;
  size_t slots = 0;  // A hash of its slots.
  int missing = 0;   // Slots that it lacks.
  std::string settles;

  friend bool operator==(const JobMark& a, const JobMark& b) {
    return std::tie(a.state, a.slots, a.missing, a.settles) ==
           std::tie(b.state, b.slots, b.missing, b.settles);
  }
};
using NodeMark = std::tuple<bool, int, size_t>;  // Open, slots, GPUs.

// Slots that jobs wait for, or lack, as of the scheduler's last pass. No job takes them for extra
// ranks.
struct WantedSlots {
  int size = 0;                                     // Nodes that there were.
  std::vector<NodeSet> nodes;                       // By Device; as in the index of all nodes.
  std::set<std::pair<std::string, Device>> queues;  // Whose quota they wait for.

  bool HasQueue(const JobRequest& request) const {
    return queues.count({request.queue, request.device}) > 0;
  }
  const NodeSet& Of(Device device) const { return nodes[static_cast<size_t>(device)]; }
};

class Cluster {
 public:
  struct Options {
    // How many ended jobs are kept, the newest ones, and how many ranks they may have together, at
    // 1.3 kB each. The newest job is always kept.
    size_t ended_jobs_kept = 10000;
    size_t ended_ranks_kept = 131'072;
    // A node that has not reported for this long, and a margin, counts as LOST; zero: never.
    absl::Duration node_lease = absl::ZeroDuration();
    // Share of the nodes that may be out before the automation brakes (automation.h).
    double max_out_share = 0.25;
    Queues queues = DefaultQueues();
    // Limits for jobs that have not ended, each of which is stored, planned for and shown. Fewer
    // per submitter, so that a script that runs wild leaves room for others. 0: no limit.
    size_t open_jobs = 20000;
    size_t open_jobs_per_submitter = 1000;
    LookThrottle::Options looks = {};
  };

  explicit Cluster(Options options)
      : options_(std::move(options)), look_throttle_(options_.looks) {}
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Takes over what a store held; before the first Step. Nodes count as UNREACHABLE until
  // they say hello, and running stops get their whole time again.
  void Restore(std::vector<Job> jobs, std::vector<Node> nodes, Moment now,
               Automation automation = {});

  Actions Step(const Event& event, Moment now);

  // When TimePassed has something to do next; InfiniteFuture() if never. Steady.
  absl::Time NextDeadline() const;

  // Why no set of known nodes, or the quota of its queue, could ever hold the job; OK if one could.
  absl::Status CanEverFit(const JobRequest& request) const;

  // As in core/schedule/spaces.h, of the known nodes.
  std::optional<int64_t> LargestDeviceMemory(const JobRequest& request) const;
  std::optional<int64_t> LargestHostMemory(const JobRequest& request) const;

  // QUEUE_UNKNOWN if there is no queue of the name that the job gives.
  std::optional<Refusal> RefuseQueue(const JobRequest& request) const;

  // PRIORITY_TOO_HIGH if the job's priority is too high for a submitter who is no operator.
  // Requires: its queue is known.
  std::optional<Refusal> RefusePriority(const JobRequest& request) const;

  // TOO_MANY_JOBS, TOO_MANY_OWN_JOBS if the submitter may not have one more job. Jobs without a
  // submitter count as those of one.
  std::optional<Refusal> RefuseOpenJob(const std::string& submitter) const;

  // Why the job waits, or is not whole: a sentence for each obstacle (why.h). `now`: wall.
  std::vector<std::string> Why(const Job& job, absl::Time now) const;

  // Every node's slots as they are now, by node name; for PlaceOne. Valid until the next Step.
  std::vector<NodeSpace> Spaces(Device device) const;

  // The trainers that should exist on the node, by id.
  std::vector<PlannedTrainer> PlanFor(const NodeName& node) const;

  // What the node should do in checkpoint directories.
  std::vector<CheckpointTask> TasksFor(const NodeName& node) const;

  // Whether the checkpoint, which exists, can be removed: CHECKPOINT_PINNED, CHECKPOINT_IN_USE;
  // CHECKPOINT_NEWEST unless `force`.
  std::optional<Refusal> RefuseRemoval(const Job& job, const Checkpoint& checkpoint,
                                       bool force) const;

  // Numbers of the slots that jobs hold on the node.
  std::set<int> SlotsUsed(const NodeName& node, Device device) const;

  // What a drain in `mode` does to each job on the node; by job.
  std::vector<DrainEffect> EffectsOfDrain(const NodeName& node, DrainMode mode, Moment now) const;

  // Whether the automation must not drain the node: RefuseAutomaticDrain, or DRAIN_IN_FLIGHT when
  // it empties another node of the same job.
  std::optional<Refusal> RefuseAutomatic(const NodeName& node) const;

  // Counts free slots on other nodes for trainers of the job, up to `wanted`.
  int CountSlotsElsewhere(const Job& job, const NodeName& node, int wanted) const;

  // The check that the node should do, if one is due.
  std::optional<CheckOrder> CheckFor(const NodeName& node) const;

  const Automation& automation() const { return automation_; }
  const Options& options() const { return options_; }
  // As JobTable::Find and Named.
  const Job* FindJob(const JobId& id) const { return jobs_.Find(id); }
  const std::map<int64_t, const Job*>* JobsNamed(const std::string& name) const {
    return jobs_.Named(name);
  }
  const std::map<JobId, Job>& jobs() const { return jobs_.all(); }
  const std::map<NodeName, Node>& nodes() const { return nodes_.all(); }

 private:
  void On(const JobSubmitted& event, Moment now, Actions& actions);
  void On(const CancelRequested& event, Moment now, Actions& actions);
  void On(const SaveRequested& event, Moment now, Actions& actions);
  void On(const ResumeRequested& event, Moment now, Actions& actions);
  void On(const RemovalRequested& event, Moment now, Actions& actions);
  void On(const PinRequested& event, Moment now, Actions& actions);
  void On(const PlanChanged& event, Moment now, Actions& actions);
  void On(const ReplacementRequested& event, Moment now, Actions& actions);
  void On(const ReplacementWithdrawn& event, Moment now, Actions& actions);
  void On(const RanksGivenUp& event, Moment now, Actions& actions);
  void On(const LabelsChanged& event, Moment now, Actions& actions);
  void On(const ProfileOrdered& event, Moment now, Actions& actions);
  void On(const NodeConnected& event, Moment now, Actions& actions);
  void On(const NodeReported& event, Moment now, Actions& actions);
  void On(const NodeDisconnected& event, Moment now, Actions& actions);
  void On(const HoldRequested& event, Moment now, Actions& actions);
  void On(const UncordonRequested& event, Moment now, Actions& actions);
  void On(const NodeResumeRequested& event, Moment now, Actions& actions);
  void On(const LossDeclared& event, Moment now, Actions& actions);
  void On(const CheckRequested& event, Moment now, Actions& actions);
  void On(const AutomaticDrainRequested& event, Moment now, Actions& actions);
  void On(const AutomationPauseRequested& event, Moment now, Actions& actions);
  void On(const AutomationResumeRequested& event, Moment now, Actions& actions);
  void On(const TimePassed& event, Moment now, Actions& actions);

  void TakeIn(const NodeName& node, const std::vector<TrainerReport>& trainers, Moment now,
              Actions& actions);
  // The reports of trainers that jobs have on the node, one for each: no other can change a job
  // (ApplyReport).
  std::vector<const TrainerReport*> OwnOf(const NodeName& node,
                                          const std::vector<TrainerReport>& trainers) const;
  void TakeIn(const NodeName& node, const std::vector<CheckpointTaskResult>& results, Moment now,
              Actions& actions);
  void TakeIn(Node& node, const std::optional<CheckResult>& check, Moment now, Actions& actions);
  void TickNodes(Moment now, Actions& actions);
  // Stores and shows what somebody has done with the node.
  void RecordDone(Node& node, const std::string& who, std::string what, Moment now,
                  Actions& actions);
  // Goes on with changes of membership: of the jobs that the event has changed, of those that
  // recover, and of those that what a node does concerns.
  void AdvanceMemberships(const Event& event, Moment now, Actions& actions);
  // As FindSlots in recovery.h says; not for kIdle.
  std::vector<Slot> FindSlotsFor(const Job& job, SlotUse use, int count,
                                 const ReplicaHome* home) const;
  // The same for kIdle. `spaces`: those of the job's device; empty: not looked at yet.
  std::vector<Slot> FindIdle(const Job& job, int count, std::vector<NodeSpace>& spaces) const;
  // Goes on with the drains: asks the jobs that still have ranks there.
  void DrainNodes(Moment now, Actions& actions);
  // Names the nodes that the ranks of a swap move to.
  void FindSubstitutes(const Job& job, const NodeName& node, DrainEffect& effect) const;
  // After a change of the node's holds: withdraws what jobs were asked to do but need not do.
  void EndDrain(const Node& node, Actions& actions);
  JobChange Drain(Job& job, DrainWay way, const NodeName& node, const std::string& why, Moment now);
  // Whether trainers are there, or should be.
  bool IsOccupied(const Node& node) const;
  // Derives the nodes' states; records, stores and shows those that have changed.
  void ShowNodes(Moment now, Actions& actions);
  // Records the actions that follow from what the job's trainers on the node have reported.
  void NoteReport(const NodeName& node, const Job& job, JobChange change, Moment now,
                  Actions& actions);
  // Records the actions that follow from a change of the whole job.
  void Note(const Job& job, JobChange change, Actions& actions);
  // The same, for one of its nodes.
  static void NoteOn(const NodeName& node, const Job& job, Actions& actions);
  // Starts jobs that wait, and makes others give way to them (schedule.h), if anything has changed
  // that matters to it.
  void Schedule(Moment now, Actions& actions);
  // Lets elastic jobs give ranks back as the scheduler has decided, and grow no further while
  // others wait.
  void FollowElastic(Moment now, Actions& actions);
  // Valid until the next pass.
  const WantedSlots& Wanted() const;
  // Whether the job starts trainers for extra ranks in such slots.
  bool GrowsAgainstOthers(const Job& job, const WantedSlots& wanted) const;
  // Of all nodes. Valid until one is added, or changes labels or spec version.
  const NodeIndex& Index() const;
  // Slots that the quota of the job's queue leaves.
  int QuotaLeft(const JobRequest& request) const;
  bool MustSchedule(const Actions& actions);
  ScheduleInput MakeScheduleInput() const;
  // Marks the checkpoints that no job keeps for removal.
  void RetainCheckpoints(Actions& actions);
  // Sends plans to the nodes whose tasks have changed.
  void AssignTasks(Moment now, Actions& actions);
  const TaskAssignment* AssignmentOf(const JobId& job) const;
  void ForgetOldJobs(Actions& actions);

  const Options options_;
  JobTable jobs_;
  NodeTable nodes_;
  std::map<JobId, TaskAssignment> assignments_;  // For jobs whose tasks a node does.
  Automation automation_;
  std::map<JobId, absl::Time> saves_for_drains_;  // Steady; when each was last asked for.
  int64_t contact_changes_ = 0;                   // NodeTable's, as of the last event.
  int64_t next_number_ = 1;
  LookThrottle look_throttle_;

  // From the scheduler's last pass.
  mutable std::optional<NodeIndex> node_index_;  // Index; reset when it is no longer valid.
  mutable std::optional<WantedSlots> wanted_;    // Computed when it is asked for.
  std::map<NodeName, size_t> index_hashes_;      // Of what node_index_ knows of each node.
  ScheduleDecision schedule_;
  std::map<JobId, JobMark> job_marks_;  // Of the jobs that had not ended.
  std::map<NodeName, NodeMark> node_marks_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CLUSTER_CLUSTER_H_
