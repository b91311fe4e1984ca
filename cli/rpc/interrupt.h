// Ctrl-C, in a form that interrupts calls under way.
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
  // During its life, `callback` is called when the interrupt is raised, on the raising thread; at
  // once if it was raised before. The callback must be quick and must not use the Interrupt.
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

  // Returns true if there is a listener, or if it had already been raised.
  bool Raise() ABSL_LOCKS_EXCLUDED(mutex_);
  // Resets it, for a caller that has handled it and continues.
  void Lower() ABSL_LOCKS_EXCLUDED(mutex_);
  bool raised() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for `duration`; returns true at once when the interrupt is raised.
  bool WaitFor(absl::Duration duration) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
  // Called under the lock, so that a destroyed listener is never called.
  std::list<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // CLI_RPC_INTERRUPT_H_
