// Executes the controller's tasks in checkpoint directories: each task that a plan lists is tried
// until it is done.
//
//   listed -> WAITING -> running -> DONE
//                ^          |
//                +- 30 s -- FAILED        no longer listed: forgotten, whatever becomes of it
//
// A file system may hang, and a directory may take long on purpose, so each task has its own
// thread, with one task at a time per job directory. A task that hangs blocks only the tasks of its
// own directory, unless kMaxRunning tasks hang: then it blocks all tasks. It never blocks the loop.
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

  // Executes one task. Called on the task's own thread.
  using Run = std::function<v1::CheckpointTaskResult(const v1::CheckpointTask&)>;

  struct Options {
    Run run;
    absl::Duration retry_delay = absl::Seconds(30);
    // How long the destructor waits for running tasks. It leaves slower ones alone.
    absl::Duration end_limit = absl::Seconds(1);
  };

  // `on_result` is called on the loop when Results() has changed. `loop` must outlive this object.
  CheckpointTasks(EventLoop& loop, Options options, std::function<void()> on_result);
  // Requires: the loop has stopped.
  ~CheckpointTasks();
  CheckpointTasks(const CheckpointTasks&) = delete;
  CheckpointTasks& operator=(const CheckpointTasks&) = delete;

  // `tasks` are all tasks of the latest plan.
  void SetWanted(const google::protobuf::RepeatedPtrField<v1::CheckpointTask>& tasks);

  // Results of those tasks of the latest plan that were tried.
  google::protobuf::RepeatedPtrField<v1::CheckpointTaskResult> Results() const;

 private:
  struct Listed {
    int64_t number = 0;  // Changes each time the task is listed anew.
    v1::CheckpointTask task;
    std::optional<v1::CheckpointTaskResult> result;
    absl::Time due = absl::InfinitePast();  // Earliest start; InfiniteFuture when done.
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
  std::set<std::string> busy_;  // Job directories in which a task is running.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKPOINTS_CHECKPOINT_TASKS_H_
