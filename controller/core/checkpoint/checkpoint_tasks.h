// Work in a job's checkpoint directory, which a node does because the controller cannot reach the
// files. Tasks follow from what is known of the job, and are listed until they are done.
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

// As CheckpointTask in proto/worker.proto.
struct CheckpointTask {
  enum class Kind { kSettle, kRemove };

  Kind kind = Kind::kSettle;
  std::string directory;
  Generation generation;         // For kSettle.
  bool must_exist = false;       // For kSettle.
  bool incomplete_only = false;  // For kRemove.

  friend bool operator==(const CheckpointTask& a, const CheckpointTask& b) {
    return std::tie(a.kind, a.directory, a.generation, a.must_exist, a.incomplete_only) ==
           std::tie(b.kind, b.directory, b.generation, b.must_exist, b.incomplete_only);
  }
};

struct FoundCheckpoint {
  CheckpointKey key;
  int64_t bytes = 0;
  int ranks = 0;
  absl::Time created;  // Wall, by the clock of the node that wrote it.
};

struct CheckpointTaskResult {
  CheckpointTask task;
  std::string error;                   // Empty: the task is done.
  std::vector<FoundCheckpoint> found;  // From kSettle, and from kRemove with incomplete_only.
};

// A node that has done none of a job's tasks for this long hands them over: its file system may
// hang, or not be mounted.
inline constexpr absl::Duration kTaskPatience = absl::Seconds(60);

// The node that does a job's tasks.
struct TaskAssignment {
  NodeName node;
  absl::Time deadline;  // Steady; then another node takes over.
  std::vector<CheckpointTask> tasks;
};

// What is to be done for the job now.
std::vector<CheckpointTask> TasksOf(const Job& job);

// Which node does the tasks: that of `before` while it makes progress; else the next READY one,
// first of those that the job ran on last, then of the others by name. Nothing if there are no
// tasks or no such node. `before` may be null.
std::optional<TaskAssignment> AssignTasks(const Job& job, const std::map<NodeName, Node>& nodes,
                                          const TaskAssignment* before, absl::Time steady_now);

// Takes in the result of a task. The result of a task that is not, or no longer, to be done for
// this job changes nothing.
JobChange TakeTaskResult(Job& job, const NodeName& node, const CheckpointTaskResult& result,
                         Moment now);

// Why a queued job cannot start yet; empty: its directory is settled. `assignment` is null if no
// node does its tasks.
std::string WaitsForSettlement(const Job& job, const TaskAssignment* assignment);

// Whether a queued job that waits for settlement holds up those behind it. It does for a moment, so
// that it keeps its slot; a file system that hangs stops nobody else.
bool KeepsPlaceInQueue(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_CHECKPOINT_TASKS_H_
