#include "controller/core/checkpoint/checkpoint_tasks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/restart.h"

namespace paceline {
namespace {

CheckpointTask SettleTask(const Job& job) {
  const auto& records = job.checkpoints.records;
  CheckpointTask task;
  task.kind = CheckpointTask::Kind::kSettle;
  task.directory = JobDirectory(job.request);
  task.generation = job.checkpoints.settlement->up_to;
  task.must_exist = std::any_of(records.begin(), records.end(), [](const Checkpoint& record) {
    return record.state != CheckpointState::kDeleting && record.base.empty();
  });
  return task;
}

CheckpointTask RemoveTask(std::string directory) {
  CheckpointTask task;
  task.kind = CheckpointTask::Kind::kRemove;
  task.directory = std::move(directory);
  return task;
}

// A failed save's directory may hold a whole checkpoint: rank 0 may have died, or reported a
// failure, after it had renamed the manifest.
CheckpointTask RemoveRemnantTask(const Job& job, const Remnant& remnant) {
  CheckpointTask task = RemoveTask(DirectoryOf(job, remnant.key, remnant.base));
  task.incomplete_only = true;
  return task;
}

bool Answers(const std::map<NodeName, Node>& nodes, const NodeName& name) {
  const auto node = nodes.find(name);
  return node != nodes.end() && IsReachable(node->second.state);
}

// The READY nodes, in order of preference.
std::vector<NodeName> TaskNodes(const Job& job, const std::map<NodeName, Node>& nodes) {
  std::vector<NodeName> ready;
  for (const NodeName& name : job.nodes) {
    if (Answers(nodes, name)) ready.push_back(name);
  }
  for (const auto& [name, node] : nodes) {
    if (IsReachable(node.state) && !UsesNode(job, name)) {
      ready.push_back(name);
    }
  }
  return ready;
}

// Whether an earlier task is no longer listed: its node has done it, or it is no longer needed.
bool IsGettingOn(const TaskAssignment& before, const std::vector<CheckpointTask>& tasks) {
  return std::any_of(before.tasks.begin(), before.tasks.end(), [&](const CheckpointTask& task) {
    return std::count(tasks.begin(), tasks.end(), task) == 0;
  });
}

// Records a checkpoint that nobody reported, because its ranks died or the controller was away, or
// whose save was taken for a failure.
void Adopt(Job& job, const FoundCheckpoint& found, const std::string& base) {
  auto& remnants = job.checkpoints.remnants;
  remnants.erase(std::remove(remnants.begin(), remnants.end(), Remnant{found.key, base}),
                 remnants.end());
  if (FindCheckpoint(job, found.key) != nullptr) return;
  Checkpoint checkpoint;
  checkpoint.key = found.key;
  checkpoint.bytes = found.bytes;
  checkpoint.ranks = found.ranks;
  checkpoint.created = found.created;
  checkpoint.base = base;
  AddCheckpoint(job, std::move(checkpoint));
  ++job.checkpoints.committed;
  job.checkpoints.durable = absl::ZeroDuration();  // Not known.
}

// Whether the scan can be relied on for this checkpoint. The ranks of a training job report those
// of later generations; one may have been completed after the node looked.
bool IsSettled(const Job& job, const CheckpointKey& key, Generation up_to) {
  return key.generation <= up_to.value() || !job.holds_slots();
}

// Drops the records of checkpoints that are no longer on disk; those elsewhere were not looked for.
// The newest one is kept as damaged: nothing may go on from an older one unless told to.
void StrikeOffMissing(Job& job, const NodeName& node, const std::vector<FoundCheckpoint>& found,
                      Generation up_to) {
  const Checkpoint* newest = NewestComplete(job);
  const CheckpointKey newest_key = newest != nullptr ? newest->key : CheckpointKey();
  std::vector<CheckpointKey> missing;
  for (const Checkpoint& record : job.checkpoints.records) {
    const bool there = std::any_of(found.begin(), found.end(),
                                   [&](const FoundCheckpoint& f) { return f.key == record.key; });
    if (!there && record.base.empty() && IsSettled(job, record.key, up_to)) {
      missing.push_back(record.key);
    }
  }
  for (const CheckpointKey& key : missing) {
    const std::string why =
        absl::StrCat(DirectoryOf(job, key, ""), " is not complete on disk any more, as node ",
                     node.value(), " sees it: it is gone, or its manifest is damaged");
    Checkpoint* record = FindCheckpoint(job, key);
    if (record->state != CheckpointState::kDeleting) job.checkpoints.last_error = why;
    if (key == newest_key) {
      record->state = CheckpointState::kDamaged;
      record->reason = why;
    } else {
      DropCheckpoint(job, key);
    }
  }
}

JobChange TakeSettled(Job& job, const NodeName& node, const CheckpointTaskResult& result,
                      Moment now) {
  if (!result.error.empty()) {
    const std::string error = absl::StrCat("node ", node.value(), ": ", result.error);
    if (std::exchange(job.checkpoints.settlement->error, error) == error) return JobChange::kNone;
    job.checkpoints.last_error =
        absl::StrCat("cannot look through ", result.task.directory, ": ", error);
    return JobChange::kProgress;
  }
  const Generation up_to = job.checkpoints.settlement->up_to;
  job.checkpoints.settlement.reset();
  const Checkpoint* before = NewestComplete(job);
  const bool had_newest = before != nullptr;
  const CheckpointKey newest = had_newest ? before->key : CheckpointKey();
  StrikeOffMissing(job, node, result.found, up_to);
  for (const FoundCheckpoint& found : result.found) {
    if (IsSettled(job, found.key, up_to)) Adopt(job, found, "");
  }
  const Checkpoint* record = had_newest ? FindCheckpoint(job, newest) : nullptr;
  if (record != nullptr && record->state == CheckpointState::kDamaged &&
      NewestComplete(job, Generation(newest.generation + 1)) == nullptr) {
    FailForDamage(job, *record, now);
  }
  return JobChange::kState;
}

// Requires: the task is one of the job's.
JobChange TakeRemoved(Job& job, const NodeName& node, const CheckpointTaskResult& result) {
  auto& remnants = job.checkpoints.remnants;
  for (auto left = remnants.begin(); left != remnants.end(); ++left) {
    if (DirectoryOf(job, left->key, left->base) != result.task.directory) continue;
    if (!result.error.empty()) return JobChange::kNone;
    const Remnant done = *left;
    remnants.erase(left);
    // Nobody else looks into the directories that people chose.
    for (const FoundCheckpoint& found : result.found) {
      if (found.key == done.key && !done.base.empty()) Adopt(job, found, done.base);
    }
    return JobChange::kState;
  }
  Checkpoint* checkpoint = FindByDirectory(job, result.task.directory);
  if (result.error.empty()) {
    DropCheckpoint(job, checkpoint->key);
    return JobChange::kState;
  }
  const std::string error = absl::StrCat("node ", node.value(), ": ", result.error);
  if (std::exchange(checkpoint->reason, error) == error) return JobChange::kNone;
  job.checkpoints.last_error = absl::StrCat("cannot remove ", result.task.directory, ": ", error);
  return JobChange::kProgress;
}

}  // namespace

std::vector<CheckpointTask> TasksOf(const Job& job) {
  std::vector<CheckpointTask> tasks;
  if (job.checkpoints.settlement.has_value()) tasks.push_back(SettleTask(job));
  for (const Remnant& remnant : job.checkpoints.remnants) {
    tasks.push_back(RemoveRemnantTask(job, remnant));
  }
  for (const Checkpoint& checkpoint : job.checkpoints.records) {
    if (checkpoint.state == CheckpointState::kDeleting) {
      tasks.push_back(RemoveTask(DirectoryOf(job, checkpoint)));
    }
  }
  return tasks;
}

std::optional<TaskAssignment> AssignTasks(const Job& job, const std::map<NodeName, Node>& nodes,
                                          const TaskAssignment* before, absl::Time steady_now) {
  std::vector<CheckpointTask> tasks = TasksOf(job);
  if (tasks.empty()) return std::nullopt;
  const absl::Time deadline = steady_now + kTaskPatience;
  const bool had_node = before != nullptr && Answers(nodes, before->node);
  // A shortcut for the usual case: it does not look at all nodes.
  if (had_node && IsGettingOn(*before, tasks)) {
    return TaskAssignment{before->node, deadline, std::move(tasks)};
  }
  if (had_node && steady_now < before->deadline) {
    return TaskAssignment{before->node, before->deadline, std::move(tasks)};
  }
  const std::vector<NodeName> ready = TaskNodes(job, nodes);
  if (ready.empty()) return std::nullopt;
  auto node =
      had_node ? std::next(std::find(ready.begin(), ready.end(), before->node)) : ready.begin();
  if (node == ready.end()) node = ready.begin();
  return TaskAssignment{*node, deadline, std::move(tasks)};
}

JobChange TakeTaskResult(Job& job, const NodeName& node, const CheckpointTaskResult& result,
                         Moment now) {
  const std::vector<CheckpointTask> wanted = TasksOf(job);
  if (std::count(wanted.begin(), wanted.end(), result.task) == 0) return JobChange::kNone;
  return result.task.kind == CheckpointTask::Kind::kRemove ? TakeRemoved(job, node, result)
                                                           : TakeSettled(job, node, result, now);
}

std::string WaitsForSettlement(const Job& job, const TaskAssignment* assignment) {
  if (!job.checkpoints.settlement.has_value()) return "";
  const std::string& error = job.checkpoints.settlement->error;
  return absl::StrCat(
      "waits for ",
      assignment == nullptr ? "a node" : absl::StrCat("node ", assignment->node.value()),
      " to scan ", JobDirectory(job.request), " for checkpoints",
      assignment == nullptr ? ": no node answers"
      : error.empty()       ? ""
                            : absl::StrCat(" (", error, ")"));
}

bool KeepsPlaceInQueue(const Job& job) {
  const auto& settlement = job.checkpoints.settlement;
  return settlement.has_value() && settlement->error.empty() &&
         settlement->deadline != absl::InfiniteFuture();
}

}  // namespace paceline
