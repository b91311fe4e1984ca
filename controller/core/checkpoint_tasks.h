// Work in a job's checkpoint directory, which a node does for the controller: it has no access to
// the files. Tasks follow from what is known of the job, and are listed until they are done.
#ifndef CONTROLLER_CORE_CHECKPOINT_TASKS_H_
#define CONTROLLER_CORE_CHECKPOINT_TASKS_H_

#include <map>
#include <string>
#include <vector>

#include "controller/core/job.h"
#include "controller/core/node.h"

namespace paceline {

// proto/worker.proto, CheckpointTask.
struct CheckpointTask {
  enum class Kind { kSettle, kRemove };

  Kind kind = Kind::kSettle;
  std::string directory;
  Generation generation;  // Of kSettle.

  friend bool operator==(const CheckpointTask& a, const CheckpointTask& b) {
    return a.kind == b.kind && a.directory == b.directory && a.generation == b.generation;
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
  std::vector<FoundCheckpoint> found;  // Of kSettle.
};

// What is to be done for the job now.
std::vector<CheckpointTask> TasksOf(const Job& job);

// Which node shall do it: one of those that the job ran on last, else the first by name; only
// READY ones. Null: none is.
const Node* ChooseTaskNode(const Job& job, const std::map<NodeName, Node>& nodes);

// Takes in what became of a task. One that is not to be done for this job (any more) changes
// nothing.
JobChange TakeTaskResult(Job& job, const NodeName& node, const CheckpointTaskResult& result,
                         Moment now);

// Why a queued job cannot start yet; empty: its directory is settled.
std::string WaitsForSettlement(const Job& job, const std::map<NodeName, Node>& nodes);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_TASKS_H_
