#include "controller/core/cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/retention.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/job/plan.h"
#include "controller/core/job/trainer_finder.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/recovery.h"
#include "controller/core/recovery/restart.h"

namespace paceline {
namespace {

// Sets deadlines anew: steady times do not survive a controller.
void RestoreDeadlines(Job& job, Moment now) {
  if (job.stop.has_value()) job.stop->deadline = now.steady + job.stop->grace + kUnreachableAfter;
  JobCheckpoints& checkpoints = job.checkpoints;
  if (checkpoints.stop_after.has_value()) {
    checkpoints.stop_after->deadline = now.steady + kStopPatience;
    // The stop was held; else the job would have been stopped.
    if (checkpoints.order.has_value() && checkpoints.order->state == SaveOrder::State::kFailed) {
      checkpoints.order->may_pass = true;
    }
  }
  if (checkpoints.next_save_wall != absl::InfiniteFuture()) {
    const absl::Duration left = checkpoints.next_save_wall - now.wall;
    checkpoints.next_save =
        now.steady + std::clamp(left, absl::ZeroDuration(), checkpoints.interval);
  }
  for (Save& save : checkpoints.saves) save.begun = now.steady;
  if (checkpoints.settlement.has_value()) {
    checkpoints.settlement->deadline = now.steady + kSettlementPatience;
  }
  RestoreRecovery(job, now);
}

std::vector<CheckpointTask> TasksOn(const NodeName& node,
                                    const std::map<JobId, TaskAssignment>& assignments) {
  std::vector<CheckpointTask> tasks;
  for (const auto& [id, assignment] : assignments) {
    if (assignment.node != node) continue;
    tasks.insert(tasks.end(), assignment.tasks.begin(), assignment.tasks.end());
  }
  return tasks;
}

// Whether a job holds on to the checkpoint in this directory to start from it.
bool StartsFrom(const Job& job, const std::string& directory) {
  if (job.ended_already()) return false;
  if (job.restored_from == directory && job.holds_slots() && job.state != JobState::kRunning) {
    return true;
  }
  const bool from_start_point = job.start.directory == directory;
  return (job.state == JobState::kQueued || from_start_point) && ChooseStart(job) == directory;
}

}  // namespace

void Actions::Merge(Actions later) {
  for (const JobId& id : later.delete_jobs) {
    store_jobs.erase(id);
    show_jobs.erase(id);
    changed_jobs.erase(id);
  }
  store_jobs.merge(later.store_jobs);
  delete_jobs.merge(later.delete_jobs);
  store_nodes.merge(later.store_nodes);
  store_automation = store_automation || later.store_automation;
  send_plans.merge(later.send_plans);
  show_jobs.merge(later.show_jobs);
  changed_jobs.merge(later.changed_jobs);
  show_nodes.merge(later.show_nodes);
  changed_nodes.merge(later.changed_nodes);
}

void Cluster::Restore(std::vector<Job> jobs, std::vector<Node> nodes, Moment now,
                      Automation automation) {
  automation_ = std::move(automation);
  for (Job& job : jobs) {
    next_number_ = std::max(next_number_, job.number + 1);
    RestoreDeadlines(job, now);
    // With a mark, the job's end causes a scheduling pass, even as the first news of the job.
    if (!job.ended_already()) job_marks_.emplace(job.request.id, JobMark());
    jobs_.Insert(std::move(job));
  }
  for (Node& node : nodes) {
    RestoreNode(node, options_.node_lease, now);
    const NodeName name = node.facts.name;
    nodes_.Insert(name) = std::move(node);
  }
  jobs_.Refresh();
  nodes_.Refresh();
  contact_changes_ = nodes_.contact_changes();
}

Actions Cluster::Step(const Event& event, Moment now) {
  Actions actions;
  nodes_.BeginStep();
  std::visit([&](const auto& e) { On(e, now, actions); }, event);
  DrainNodes(now, actions);
  AdvanceMemberships(event, now, actions);
  RetainCheckpoints(actions);
  AssignTasks(now, actions);
  Schedule(now, actions);
  ForgetOldJobs(actions);
  ShowNodes(now, actions);
  jobs_.Refresh();
  nodes_.Refresh();
  return actions;
}

void Cluster::On(const JobSubmitted& event, Moment now, Actions& actions) {
  Job& job = jobs_.Insert(NewJob(event.request, next_number_++, now));
  job.submitter = event.submitter;
  Note(job, JobChange::kState, actions);
}

void Cluster::On(const CancelRequested& event, Moment now, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  if (event.save) {
    StopWhenSaved(*job, event.reason, event.grace, now);
    return Note(*job, JobChange::kState, actions);
  }
  Note(*job, CancelJob(*job, event.reason, event.grace, now), actions);
}

void Cluster::On(const SaveRequested& event, Moment now, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  OrderSave(*job, event.now, "asked for by a user", now, event.directory);
  Note(*job, JobChange::kState, actions);
}

void Cluster::On(const ResumeRequested& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.request.id);
  if (job == nullptr) return;
  ResumeJob(*job, event.request, event.from);
  Note(*job, JobChange::kState, actions);
}

void Cluster::On(const RemovalRequested& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  Checkpoint* checkpoint = FindCheckpoint(*job, event.checkpoint);
  if (checkpoint == nullptr || checkpoint->state == CheckpointState::kDeleting) return;
  checkpoint->state = CheckpointState::kDeleting;
  checkpoint->reason.clear();
  Note(*job, JobChange::kState, actions);
}

void Cluster::On(const PinRequested& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  Checkpoint* checkpoint = FindCheckpoint(*job, event.checkpoint);
  if (checkpoint == nullptr || checkpoint->state == CheckpointState::kDeleting) return;
  checkpoint->pinned = event.pinned;
  Note(*job, JobChange::kState, actions);
}

void Cluster::On(const PlanChanged& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  ChangePlan(*job, event.plan);
  Note(*job, JobChange::kState, actions);
}

void Cluster::On(const LabelsChanged& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  job->request.spec = event.spec;
  job->request.labels = event.labels;
  job->request.description = event.description;
  // No plan depends on them, so no node gets another plan.
  actions.store_jobs.insert(event.job);
  actions.show_jobs.insert(event.job);
  actions.changed_jobs.insert(event.job);
}

void Cluster::On(const ProfileOrdered& event, Moment, Actions& actions) {
  Job* const job = jobs_.Change(event.job);
  if (job == nullptr) return;
  job->profile = event.profile;
  Note(*job, JobChange::kState, actions);
}

void Cluster::On(const TimePassed&, Moment now, Actions& actions) {
  for (auto& [id, job] : jobs_.ChangeAll()) Note(job, TickJob(job, now), actions);
  for (const JobId& id : look_throttle_.TakeDue(now.steady)) {
    Note(*jobs_.Find(id), JobChange::kProgress, actions);
  }
  TickNodes(now, actions);
}

void Cluster::TakeIn(const NodeName& node, const std::vector<TrainerReport>& trainers, Moment now,
                     Actions& actions) {
  std::map<JobId, JobChange> changes;
  for (const TrainerReport* report : OwnOf(node, trainers)) {
    const JobId& id = report->id.job;
    JobChange& change = changes.emplace(id, JobChange::kNone).first->second;
    change = std::max(change, ApplyReport(*jobs_.Change(id), node, *report, now));
  }
  for (const auto& [id, change] : changes) NoteReport(node, *jobs_.Find(id), change, now, actions);
}

// Each report that is taken in costs a look at the ranks of its job: a node that lies must not
// cause a look for every trainer that it names.
std::vector<const TrainerReport*> Cluster::OwnOf(const NodeName& node,
                                                 const std::vector<TrainerReport>& trainers) const {
  std::vector<const TrainerReport*> own;
  TrainerFinder finder;
  absl::flat_hash_set<const RankState*> seen;
  for (const TrainerReport& report : trainers) {
    const Job* job = jobs_.Find(report.id.job);
    const RankState* known = job == nullptr ? nullptr : finder.Find(*job, report.id);
    if (known == nullptr || known->slot.node != node || !seen.insert(known).second) continue;
    own.push_back(&report);
  }
  return own;
}

void Cluster::TakeIn(const NodeName& node, const std::vector<CheckpointTaskResult>& results,
                     Moment now, Actions& actions) {
  for (const CheckpointTaskResult& result : results) {
    for (const JobId& id : jobs_.with_tasks()) {
      Job& job = *jobs_.Change(id);
      Note(job, TakeTaskResult(job, node, result, now), actions);
    }
  }
}

void Cluster::NoteReport(const NodeName& node, const Job& job, JobChange change, Moment now,
                         Actions& actions) {
  if (change == JobChange::kState) return Note(job, change, actions);
  const JobId& id = job.request.id;
  if (change == JobChange::kTrainer) {
    actions.store_jobs.insert(id);
    NoteOn(node, job, actions);
  }
  const bool news = change != JobChange::kNone;
  if (look_throttle_.MayLook(id, job.ranks.size(), news, now.steady)) {
    Note(job, JobChange::kProgress, actions);
  }
}

void Cluster::Note(const Job& job, JobChange change, Actions& actions) {
  if (change == JobChange::kNone) return;
  actions.show_jobs.insert(job.request.id);
  if (change == JobChange::kProgress) return;
  actions.store_jobs.insert(job.request.id);
  actions.changed_jobs.insert(job.request.id);
  for (const NodeName& node : job.nodes) NoteOn(node, job, actions);
}

void Cluster::NoteOn(const NodeName& node, const Job& job, Actions& actions) {
  actions.send_plans.insert(node);
  if (job.state != JobState::kRunning && job.state != JobState::kStopping) {
    actions.show_nodes.insert(node);
  }
}

void Cluster::RetainCheckpoints(Actions& actions) {
  if (actions.changed_jobs.empty()) return;  // Nothing has changed that matters here.
  for (const auto& [id, known] : jobs()) {
    const auto in_use = [&, &owner = known](const CheckpointKey& key) {
      const std::string directory = DirectoryOf(owner, *FindCheckpoint(owner, key));
      return std::any_of(jobs().begin(), jobs().end(),
                         [&](const auto& other) { return StartsFrom(other.second, directory); });
    };
    const auto surplus = FindSurplus(known.checkpoints.records, known.request.checkpoints, in_use);
    if (surplus.empty()) continue;
    Job& job = *jobs_.Change(id);
    for (const CheckpointKey& key : surplus) {
      FindCheckpoint(job, key)->state = CheckpointState::kDeleting;
    }
    Note(job, JobChange::kState, actions);
  }
}

void Cluster::AssignTasks(Moment now, Actions& actions) {
  std::map<JobId, TaskAssignment> assignments;
  for (const JobId& id : jobs_.with_tasks()) {
    auto assignment = paceline::AssignTasks(*jobs_.Find(id), nodes(), AssignmentOf(id), now.steady);
    if (assignment.has_value()) assignments.emplace(id, *std::move(assignment));
  }
  const auto before = std::exchange(assignments_, std::move(assignments));
  std::set<NodeName> nodes;
  for (const auto* part : {&before, &std::as_const(assignments_)}) {
    for (const auto& [id, assignment] : *part) nodes.insert(assignment.node);
  }
  for (const NodeName& name : nodes) {
    if (TasksOn(name, before) != TasksOn(name, assignments_)) actions.send_plans.insert(name);
  }
}

const TaskAssignment* Cluster::AssignmentOf(const JobId& job) const {
  const auto found = assignments_.find(job);
  return found == assignments_.end() ? nullptr : &found->second;
}

void Cluster::ForgetOldJobs(Actions& actions) {
  const auto too_many = [this](const EndedJobs& ended) {
    return ended.size() > options_.ended_jobs_kept ||
           (ended.size() > 1 && ended.ranks() > options_.ended_ranks_kept);
  };
  while (too_many(jobs_.ended())) {
    const JobId id = jobs_.ended().oldest();
    jobs_.Remove(id);
    look_throttle_.Forget(id);
    actions.store_jobs.erase(id);
    actions.show_jobs.erase(id);
    actions.changed_jobs.erase(id);
    actions.delete_jobs.insert(id);
  }
}

absl::Time Cluster::NextDeadline() const {
  absl::Time next =
      std::min({jobs_.NextDeadline(), nodes_.NextDeadline(), look_throttle_.NextDeadline()});
  for (const auto& [id, assignment] : assignments_) next = std::min(next, assignment.deadline);
  return next;
}

std::vector<CheckpointTask> Cluster::TasksFor(const NodeName& node) const {
  return TasksOn(node, assignments_);
}

std::optional<Refusal> Cluster::RefuseRemoval(const Job& job, const Checkpoint& checkpoint,
                                              bool force) const {
  const std::string directory = DirectoryOf(job, checkpoint);
  if (checkpoint.pinned) {
    return Refusal{Refusal::Kind::kState, "CHECKPOINT_PINNED",
                   absl::StrCat(directory, " is pinned: unpin it first")};
  }
  for (const auto& [id, other] : jobs()) {
    if (!StartsFrom(other, directory)) continue;
    return Refusal{Refusal::Kind::kState, "CHECKPOINT_IN_USE",
                   absl::StrCat("job ", id.value(), " starts from ", directory,
                                ": wait until it trains, or cancel it")};
  }
  if (!force && NewestComplete(job) == &checkpoint) {
    return Refusal{Refusal::Kind::kState, "CHECKPOINT_NEWEST",
                   absl::StrCat(directory, " is the newest complete checkpoint of job ",
                                job.request.id.value(),
                                ": without it the job goes on from an older one or from the "
                                "start; give --force to remove it all the same")};
  }
  return std::nullopt;
}

}  // namespace paceline
