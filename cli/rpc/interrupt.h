// Ctrl-C, as something that calls under way can be told about.
//
// Thread-safe.
#ifndef CLI_RPC_INTERRUPT_H_
#define CLI_RPC_INTERRUPT_H_

#include <functional>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace paceline {

class Interrupt {
 public:
  // While it lives, `callback` is called at the interrupt, from the thread that raises it;
  // at once when it has been raised before. It must be quick and must not use the Interrupt.
  class Listener {
   public:
    Listener(Interrupt& interrupt, std::function<void()> callback);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Interrupt& interrupt_;
    std::list<std::function<void()>>::iterator place_;
  };

  Interrupt() = default;
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // True when somebody listens, or when it had been raised already.
  bool Raise() ABSL_LOCKS_EXCLUDED(mutex_);
  // As if it had not been raised: for who has done what was asked for by it, and goes on.
  void Lower() ABSL_LOCKS_EXCLUDED(mutex_);
  bool raised() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits; returns at once, with true, when the interrupt is raised.
  bool WaitFor(absl::Duration duration) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
  // Called under the lock, so that a listener that is gone is never called.
  std::list<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // CLI_RPC_INTERRUPT_H_
