#include "common/forked_child.h"

#include <pthread.h>

#include <atomic>

namespace paceline {
namespace {

std::atomic<bool> is_forked_child{false};

// The child has one thread, and may be in the middle of anything.
void OnForkInChild() { is_forked_child.store(true, std::memory_order_relaxed); }

}  // namespace

void WatchForks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, OnForkInChild);
  static_cast<void>(registered);  // Fails only without memory.
}

bool IsForkedChild() { return is_forked_child.load(std::memory_order_relaxed); }

}  // namespace paceline
