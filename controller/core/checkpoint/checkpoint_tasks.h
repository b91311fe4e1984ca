// Work in a job's checkpoint directory, which a node does for the controller: it has no access to
// the files. Tasks follow from what is known of the job, and are listed until they are done.
#ifndef CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_TASKS_H_
#define CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_TASKS_H_

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/node/node.h"

namespace paceline {

// proto/worker.proto, CheckpointTask.
struct CheckpointTask {
  enum class Kind { kSettle, kRemove };

  Kind kind = Kind::kSettle;
  std::string directory;
  Generation generation;         // Of kSettle.
  bool must_exist = false;       // Of kSettle.
  bool incomplete_only = false;  // Of kRemove.

  friend bool operator==(const CheckpointTask& a, const CheckpointTask& b) {
    return std::tie(a.kind, a.directory, a.generation, a.must_exist, a.incomplete_only) ==
           std::tie(b.kind, b.directory, b.generation, b.must_exist, b.incomplete_only);
  }
};

struct FoundCheckpoint {
  CheckpointKey key;
  int64_t bytes = 0;
  int ranks = 0;
  absl::Time created;  // Wall, of the node that wrote it.
};

struct CheckpointTaskResult {
  CheckpointTask task;
  std::string error;                   // Empty: it is done.
  std::vector<FoundCheckpoint> found;  // Of kSettle, and of kRemove with incomplete_only.
};

// A node that has got none of a job's tasks done for so long hands them over: its file system may
// hang, or not be mounted.
inline constexpr absl::Duration kTaskPatience = absl::Seconds(60);

// Who does the tasks of a job.
struct TaskAssignment {
  NodeName node;
  absl::Time deadline;  // Steady; another node takes over then.
  std::vector<CheckpointTask> tasks;
};

// What is to be done for the job now.
std::vector<CheckpointTask> TasksOf(const Job& job);

// Which node shall do it: that of `before`, while it gets on; else the next of those that the job
// ran on last and then of the others by name; only READY ones. Nothing: there are no tasks, or no
// such node. `before` may be null.
std::optional<TaskAssignment> AssignTasks(const Job& job, const std::map<NodeName, Node>& nodes,
                                          const TaskAssignment* before, absl::Time steady_now);

// Takes in what became of a task. One that is not to be done for this job (any more) changes
// nothing.
JobChange TakeTaskResult(Job& job, const NodeName& node, const CheckpointTaskResult& result,
                         Moment now);

// Why a queued job cannot start yet; empty: its directory is settled. `assignment`: null if no node
// does its tasks.
std::string WaitsForSettlement(const Job& job, const TaskAssignment* assignment);

// Whether a queued job that waits for settlement holds up those behind it: it goes on where it was
// if that takes a moment, and a file system that hangs stops nobody else.
bool KeepsPlaceInQueue(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_TASKS_H_
