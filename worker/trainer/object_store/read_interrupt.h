// Ends reads of objects that wait for their store.
#ifndef WORKER_TRAINER_OBJECT_STORE_READ_INTERRUPT_H_
#define WORKER_TRAINER_OBJECT_STORE_READ_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

// While it is set, reads end with Cancelled instead of waiting, within about a second. Later ones
// are made as usual. Thread-safe.
class ReadInterrupt {
 public:
  // Sets it as long as this lives. `interrupt` null: there is nothing to set.
  class Scope {
   public:
    explicit Scope(ReadInterrupt* interrupt) : interrupt_(interrupt) {
      if (interrupt_ != nullptr) ++interrupt_->scopes_;
    }
    ~Scope() {
      if (interrupt_ != nullptr) --interrupt_->scopes_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ReadInterrupt* const interrupt_;
  };

  // It is set while `condition` holds, too, which is called on threads that read, one at a time.
  void SetCondition(std::function<bool()> condition) {
    const absl::MutexLock lock(&mutex_);
    condition_ = std::move(condition);
  }

  bool is_set() const {
    if (scopes_ > 0) return true;
    const absl::MutexLock lock(&mutex_);
    return condition_ && condition_();
  }

 private:
  std::atomic<int> scopes_{0};
  mutable absl::Mutex mutex_;
  std::function<bool()> condition_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_READ_INTERRUPT_H_
