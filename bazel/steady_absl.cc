// Makes the waits of Abseil with a time go by the monotonic clock.
//
// The distribution's Abseil sleeps until a time of the wall clock: when that is set back by an
// hour, whoever waits for a millisecond (absl::Mutex, absl::CondVar, absl::Notification, and all of
// gRPC through them) waits an hour longer. This file stands in the place of the one function of the
// library that sleeps, which it leaves open to be replaced (per_thread_sem.h). Linked into every
// program of ours, as @system//:absl depends on it. Later releases do so by themselves.
#include "absl/base/config.h"

#if ABSL_LTS_RELEASE_VERSION < 20230802

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/base/internal/thread_identity.h"
#include "absl/synchronization/internal/create_thread_identity.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/internal/waiter.h"

namespace {

static_assert(ABSL_WAITER_MODE == ABSL_WAITER_MODE_FUTEX);
static_assert(sizeof(absl::synchronization_internal::Waiter) == sizeof(std::atomic<int32_t>));

constexpr int64_t kNanos = 1'000'000'000;

int64_t NanosNow(clockid_t clock) {
  timespec now;
  ::clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kNanos + now.tv_nsec;
}

// Nanoseconds since the epoch. Its own function for that needs one more library.
int64_t NanosOf(const absl::synchronization_internal::KernelTimeout& timeout) {
  int64_t nanos;
  static_assert(sizeof(nanos) == sizeof(timeout));
  std::memcpy(&nanos, &timeout, sizeof(nanos));
  return nanos;
}

// Waiter::Wait, with the end of the wait by the monotonic clock; null: none. `count` is the
// waiter's only field, which Waiter::Post raises. False when the time has passed.
bool TakeOne(std::atomic<int32_t>& count, const timespec* end) {
  while (true) {
    int32_t seen = count.load(std::memory_order_relaxed);
    while (seen != 0) {
      if (count.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    // Without FUTEX_CLOCK_REALTIME the end is one of the monotonic clock.
    const auto slept =
        ::syscall(SYS_futex, reinterpret_cast<int32_t*>(&count),
                  FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, end, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (slept != 0 && errno == ETIMEDOUT) return false;
  }
}

}  // namespace

extern "C" bool ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(
    absl::synchronization_internal::KernelTimeout timeout) {
  timespec end = {};
  if (timeout.has_timeout()) {
    // Of an Abseil call with a duration this is that duration: the wall clock was asked just
    // before.
    const int64_t left = NanosOf(timeout) - NanosNow(CLOCK_REALTIME);
    int64_t end_ns;
    if (__builtin_add_overflow(NanosNow(CLOCK_MONOTONIC), left, &end_ns)) end_ns = INT64_MAX;
    if (end_ns < 0) end_ns = 0;
    end = {end_ns / kNanos, end_ns % kNanos};
  }
  auto* const identity = absl::synchronization_internal::GetOrCreateCurrentThreadIdentity();
  auto& count = *reinterpret_cast<std::atomic<int32_t>*>(identity->waiter_state.data);
  return TakeOne(count, timeout.has_timeout() ? &end : nullptr);
}

#endif
