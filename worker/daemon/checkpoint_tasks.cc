#include "worker/daemon/checkpoint_tasks.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/log.h"

namespace paceline {
namespace {

// For log lines.
std::string Named(const v1::CheckpointTask& task) {
  return "task=" + v1::CheckpointTask::Kind_Name(task.kind()) + " directory=" + task.directory();
}

}  // namespace

// What a running task and the loop share; it may outlive all else.
struct CheckpointTasks::Thread {
  absl::Mutex mutex;
  bool busy ABSL_GUARDED_BY(mutex) = false;
  bool abandoned ABSL_GUARDED_BY(mutex) = false;  // Nobody waits for a result any more.
};

CheckpointTasks::CheckpointTasks(EventLoop& loop, Options options, std::function<void()> on_result)
    : loop_(loop),
      options_(std::move(options)),
      on_result_(std::move(on_result)),
      thread_(std::make_shared<Thread>()) {}

CheckpointTasks::~CheckpointTasks() {
  absl::MutexLock lock(&thread_->mutex);
  thread_->abandoned = true;
  const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !thread_->busy; };
  if (thread_->mutex.AwaitWithTimeout(absl::Condition(&idle), options_.end_limit)) return;
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

// The one that waits longest: tasks that were not tried yet come before those that failed.
void CheckpointTasks::StartNext() {
  if (running_) return;
  const auto next =
      std::min_element(listed_.begin(), listed_.end(),
                       [](const Listed& a, const Listed& b) { return a.due < b.due; });
  if (next != listed_.end() && next->due <= EventLoop::Now()) Start(*next);
}

void CheckpointTasks::Start(const Listed& listed) {
  running_ = true;
  {
    absl::MutexLock lock(&thread_->mutex);
    thread_->busy = true;
  }
  std::thread([this, thread = thread_, run = options_.run, task = listed.task,
               number = listed.number] {
    v1::CheckpointTaskResult result = run(task);
    *result.mutable_task() = task;
    absl::MutexLock lock(&thread->mutex);
    thread->busy = false;
    if (thread->abandoned) return;
    loop_.Post([this, number, result = std::move(result)]() mutable {
      OnResult(number, std::move(result));
    });
  }).detach();
}

void CheckpointTasks::OnResult(int64_t number, v1::CheckpointTaskResult result) {
  running_ = false;
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
