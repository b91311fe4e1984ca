// What the node does in checkpoint directories for the controller: as long as a plan lists a task,
// it is tried until it is done.
//
//   listed -> WAITING -> running -> DONE
//                ^          |
//                +- 30 s -- FAILED        no longer listed: forgotten, whatever becomes of it
//
// File systems may hang, and directories may be made to last, so tasks run on threads of their own,
// one at a time for each job's directory: one that hangs holds up those of its directory, and, when
// kMaxRunning hang, the others, and nothing else.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_CHECKPOINTS_CHECKPOINT_TASKS_H_
#define WORKER_DAEMON_CHECKPOINTS_CHECKPOINT_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/event_loop.h"
#include "proto/worker.pb.h"

namespace paceline {

class CheckpointTasks {
 public:
  static constexpr size_t kMaxRunning = 16;

  // Does a task; called on a thread of its own.
  using Run = std::function<v1::CheckpointTaskResult(const v1::CheckpointTask&)>;

  struct Options {
    Run run;
    absl::Duration retry_delay = absl::Seconds(30);
    // For running tasks, at the end of the daemon. Those that take longer are left to themselves.
    absl::Duration end_limit = absl::Seconds(1);
  };

  // `on_result` is called on the loop when Results have changed. `loop` outlives this object.
  CheckpointTasks(EventLoop& loop, Options options, std::function<void()> on_result);
  // Requires: the loop runs no more.
  ~CheckpointTasks();
  CheckpointTasks(const CheckpointTasks&) = delete;
  CheckpointTasks& operator=(const CheckpointTasks&) = delete;

  // All tasks of the latest plan.
  void SetWanted(const google::protobuf::RepeatedPtrField<v1::CheckpointTask>& tasks);

  // Of the latest plan's tasks, as far as they were tried.
  google::protobuf::RepeatedPtrField<v1::CheckpointTaskResult> Results() const;

 private:
  struct Listed {
    int64_t number = 0;  // Another one each time that it is listed anew.
    v1::CheckpointTask task;
    std::optional<v1::CheckpointTaskResult> result;
    absl::Time due = absl::InfinitePast();  // Not before; InfiniteFuture: done.
  };
  struct Threads;

  void StartNext();
  void Start(const Listed& listed);
  void OnResult(int64_t number, const std::string& job_directory, v1::CheckpointTaskResult result);

  // Constant.
  EventLoop& loop_;
  const Options options_;
  const std::function<void()> on_result_;
  const std::shared_ptr<Threads> threads_;

  // Owned by the loop.
  std::vector<Listed> listed_;  // In the order of the plan.
  int64_t last_number_ = 0;
  std::set<std::string> busy_;  // Jobs' directories in which a task runs.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKPOINTS_CHECKPOINT_TASKS_H_
