#include "worker/trainer/comm/connecting.h"

#include <exception>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(2);  // Between calls of `is_over`.

}  // namespace

struct Connecting::Attempt {
  absl::Mutex mu;
  bool done ABSL_GUARDED_BY(mu) = false;
  Connected connected ABSL_GUARDED_BY(mu);
  std::exception_ptr error ABSL_GUARDED_BY(mu);
};

Connecting::Connecting(std::function<Connected()> connect) : attempt_(std::make_shared<Attempt>()) {
  std::thread([attempt = attempt_, connect = std::move(connect)] {
    Connected connected;
    std::exception_ptr error;
    try {
      connected = connect();
    } catch (...) {
      error = std::current_exception();
    }
    const absl::MutexLock lock(&attempt->mu);
    attempt->connected = std::move(connected);
    attempt->error = error;
    attempt->done = true;
  }).detach();
}

Connecting::~Connecting() = default;

std::optional<Connected> Connecting::Wait(const std::function<bool()>& is_over) {
  const absl::MutexLock lock(&attempt_->mu);
  const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(attempt_->mu) { return attempt_->done; };
  while (!attempt_->mu.AwaitWithTimeout(absl::Condition(&done), kPatience)) {
    if (is_over()) return std::nullopt;
  }
  if (attempt_->error != nullptr) std::rethrow_exception(attempt_->error);
  return std::move(attempt_->connected);
}

bool Connecting::IsDone() const {
  const absl::MutexLock lock(&attempt_->mu);
  return attempt_->done;
}

}  // namespace paceline
