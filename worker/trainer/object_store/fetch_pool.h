// Threads that fetch ahead. A task is a hint: it may be refused, and is dropped with its owner.
// What it throws is dropped, too.
#ifndef WORKER_TRAINER_OBJECT_STORE_FETCH_POOL_H_
#define WORKER_TRAINER_OBJECT_STORE_FETCH_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

// Thread-safe.
class FetchPool {
 public:
  // May throw what std::thread's constructor does.
  using StartThread = std::function<std::thread(std::function<void()> run)>;

  // The threads begin with the first task. If not all can be started, those that could do the work.
  FetchPool(int threads, size_t most_waiting, StartThread start_thread = StartOwnThread)
      : most_threads_(threads), most_(most_waiting), start_thread_(std::move(start_thread)) {}
  // Requires: all owners were removed.
  ~FetchPool();

  // False, and nothing is done: as many tasks as may are waiting, or no thread can be started.
  bool Add(const void* owner, std::function<void()> task);

  // Drops the owner's tasks, and waits for those that run.
  void Remove(const void* owner);

 private:
  struct Task {
    const void* owner = nullptr;
    std::function<void()> run;
  };

  static std::thread StartOwnThread(std::function<void()> run);
  void StartThreads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  // Waits for a task; nothing: the pool ends.
  std::optional<Task> Take();
  void End(const void* owner);

  const int most_threads_;
  const size_t most_;
  const StartThread start_thread_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_warned_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, int> running_ ABSL_GUARDED_BY(mutex_);  // By owner; none has 0.
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_FETCH_POOL_H_
