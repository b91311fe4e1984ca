#include "worker/daemon/checkpoints/checkpoint_tasks.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/log.h"

namespace paceline {
namespace {

// Names a task in log lines.
std::string Named(const v1::CheckpointTask& task) {
  return "task=" + v1::CheckpointTask::Kind_Name(task.kind()) + " directory=" + task.directory();
}

// Returns the checkpoint directory of the task's job.
std::string JobDirectory(const v1::CheckpointTask& task) {
  std::string directory = task.directory();
  while (!directory.empty() && directory.back() == '/') directory.pop_back();
  if (task.kind() == v1::CheckpointTask::REMOVE) directory.resize(directory.rfind('/') + 1);
  while (!directory.empty() && directory.back() == '/') directory.pop_back();
  return directory;
}

}  // namespace

// State shared by the loop and the running tasks. A task that hangs may outlive everything else.
struct CheckpointTasks::Threads {
  absl::Mutex mutex;
  int running ABSL_GUARDED_BY(mutex) = 0;
  bool abandoned ABSL_GUARDED_BY(mutex) = false;  // Nobody waits for a result any more.
};

CheckpointTasks::CheckpointTasks(EventLoop& loop, Options options, std::function<void()> on_result)
    : loop_(loop),
      options_(std::move(options)),
      on_result_(std::move(on_result)),
      threads_(std::make_shared<Threads>()) {}

CheckpointTasks::~CheckpointTasks() {
  absl::MutexLock lock(&threads_->mutex);
  threads_->abandoned = true;
  const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return threads_->running == 0; };
  if (threads_->mutex.AwaitWithTimeout(absl::Condition(&idle), options_.end_limit)) return;
  PACELINE_LOG(WARNING) << "checkpoint_task_abandoned, its file system does not answer";
}

void CheckpointTasks::SetWanted(
    const google::protobuf::RepeatedPtrField<v1::CheckpointTask>& tasks) {
  std::vector<Listed> listed;
  for (const v1::CheckpointTask& task : tasks) {
    const std::string same = task.SerializeAsString();
    const auto known = std::find_if(listed_.begin(), listed_.end(), [&](const Listed& old) {
      return old.task.SerializeAsString() == same;
    });
    if (known == listed_.end()) {
      listed.push_back({++last_number_, task, std::nullopt, absl::InfinitePast()});
    } else {
      listed.push_back(*known);
    }
  }
  listed_ = std::move(listed);
  StartNext();
}

google::protobuf::RepeatedPtrField<v1::CheckpointTaskResult> CheckpointTasks::Results() const {
  google::protobuf::RepeatedPtrField<v1::CheckpointTaskResult> results;
  for (const Listed& listed : listed_) {
    if (listed.result.has_value()) *results.Add() = *listed.result;
  }
  return results;
}

// Starts the tasks that have waited longest: those not tried yet come before those that failed.
void CheckpointTasks::StartNext() {
  while (busy_.size() < kMaxRunning) {
    const Listed* next = nullptr;
    for (const Listed& listed : listed_) {
      if (listed.due > EventLoop::Now() || busy_.count(JobDirectory(listed.task)) > 0) continue;
      if (next == nullptr || listed.due < next->due) next = &listed;
    }
    if (next == nullptr) return;
    Start(*next);
  }
}

void CheckpointTasks::Start(const Listed& listed) {
  std::string job_directory = JobDirectory(listed.task);
  busy_.insert(job_directory);
  {
    absl::MutexLock lock(&threads_->mutex);
    ++threads_->running;
  }
  std::thread([this, threads = threads_, run = options_.run, task = listed.task,
               job_directory = std::move(job_directory), number = listed.number] {
    v1::CheckpointTaskResult result = run(task);
    *result.mutable_task() = task;
    absl::MutexLock lock(&threads->mutex);
    --threads->running;
    if (threads->abandoned) return;
    loop_.Post([this, number, job_directory, result = std::move(result)]() mutable {
      OnResult(number, job_directory, std::move(result));
    });
  }).detach();
}

void CheckpointTasks::OnResult(int64_t number, const std::string& job_directory,
                               v1::CheckpointTaskResult result) {
  busy_.erase(job_directory);
  const auto listed = std::find_if(listed_.begin(), listed_.end(),
                                   [&](const Listed& task) { return task.number == number; });
  if (listed != listed_.end()) {
    if (result.error().empty()) {
      listed->due = absl::InfiniteFuture();
      PACELINE_LOG(INFO) << "checkpoint_task_done " << Named(listed->task)
                         << " found=" << result.found_size();
    } else {
      listed->due = EventLoop::Now() + options_.retry_delay;
      loop_.After(options_.retry_delay, [this] { StartNext(); });
      PACELINE_LOG(WARNING) << "checkpoint_task_failed " << Named(listed->task) << " reason=\""
                            << result.error() << "\"";
    }
    listed->result = std::move(result);
    on_result_();
  }
  StartNext();
}

}  // namespace paceline
