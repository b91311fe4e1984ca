#include "cli/rpc/interrupt.h"

#include <utility>

namespace paceline {

Interrupt::Listener::Listener(Interrupt& interrupt, std::function<void()> callback)
    : interrupt_(interrupt) {
  absl::MutexLock lock(&interrupt_.mutex_);
  if (interrupt_.raised_) callback();
  place_ = interrupt_.callbacks_.insert(interrupt_.callbacks_.end(), std::move(callback));
}

Interrupt::Listener::~Listener() {
  absl::MutexLock lock(&interrupt_.mutex_);
  interrupt_.callbacks_.erase(place_);
}

bool Interrupt::Raise() {
  absl::MutexLock lock(&mutex_);
  const bool heard = raised_ || !callbacks_.empty();
  raised_ = true;
  for (const auto& callback : callbacks_) callback();
  return heard;
}

void Interrupt::Lower() {
  absl::MutexLock lock(&mutex_);
  raised_ = false;
}

bool Interrupt::raised() const {
  absl::MutexLock lock(&mutex_);
  return raised_;
}

bool Interrupt::WaitFor(absl::Duration duration) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&raised_), duration);
}

}  // namespace paceline
