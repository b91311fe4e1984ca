// Tells ThreadSanitizer which order absl::Mutex, absl::CondVar and absl::Status bring about.
//
// The distribution's Abseil is not instrumented, so TSan sees neither its locks nor its
// waits and would report every field that they guard. This file stands in front of the
// library's functions: each does what the library's does and says "acquired" or "released".
// Linked by --config=tsan alone.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

namespace {

// The library's own function of that mangled name.
template <typename Function>
Function Next(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol));
}

// A condition that is evaluated by whichever thread gives the lock up.
struct Watched {
  const absl::Condition* condition;
  absl::Mutex* mutex;

  static bool Eval(Watched* watched) {
    __tsan_acquire(watched->mutex);
    const bool holds = watched->condition->Eval();
    __tsan_release(watched->mutex);
    return holds;
  }
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  next(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static const auto next = Next<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = next(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  next(this);
}

void Mutex::ReaderLock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex10ReaderLockEv");
  next(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex12ReaderUnlockEv");
  __tsan_release(this);
  next(this);
}

void Mutex::Await(const Condition& condition) {
  static const auto next =
      Next<void (*)(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  Watched watched{&condition, this};
  next(this, Condition(&Watched::Eval, &watched));
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto next = Next<bool (*)(Mutex*, const Condition&, Duration)>(
      "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  Watched watched{&condition, this};
  const bool holds = next(this, Condition(&Watched::Eval, &watched), timeout);
  __tsan_acquire(this);
  return holds;
}

void CondVar::Wait(Mutex* mutex) {
  static const auto next =
      Next<void (*)(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  next(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto next = Next<bool (*)(CondVar*, Mutex*, Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool late = next(this, mutex, timeout);
  __tsan_acquire(mutex);
  return late;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto next = Next<bool (*)(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool late = next(this, mutex, deadline);
  __tsan_acquire(mutex);
  return late;
}

void Notification::Notify() {
  static const auto next = Next<void (*)(Notification*)>("_ZN4absl7debian312Notification6NotifyEv");
  __tsan_release(this);
  next(this);
}

void Notification::WaitForNotification() const {
  static const auto next =
      Next<void (*)(const Notification*)>("_ZNK4absl7debian312Notification19WaitForNotificationEv");
  next(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto next = Next<bool (*)(const Notification*, Duration)>(
      "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = next(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

// The copies of a status, counted where TSan sees it: the last of them deletes what all have read.
void Status::UnrefNonInlined(uintptr_t rep) {
  status_internal::StatusRep* shared = RepToPointer(rep);
  if (shared->ref.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
}

ABSL_NAMESPACE_END
}  // namespace absl
