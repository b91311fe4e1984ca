#include "worker/trainer/generation/stop_signal.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

class BlockedSignal : public StopSignal {
 public:
  explicit BlockedSignal(int fd) : StopSignal(fd) {}
  ~BlockedSignal() override { ::close(fd()); }

  bool Take() override {
    signalfd_siginfo info;
    return ::read(fd(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info));
  }
  void Restore() override {}
};

// What the handler uses. Set before it is installed.
std::atomic<int> handler_fd{-1};
std::atomic<pid_t> handler_process{0};  // 0: nobody handles the signal.
struct sigaction former_action;

void OnTerm(int signal_number) {
  const int error_before = errno;
  if (::getpid() == handler_process.load(std::memory_order_relaxed)) {
    const uint64_t one = 1;
    // Fails only when the counter is full, and then there is a signal to take anyway.
    [[maybe_unused]] const ssize_t written =
        ::write(handler_fd.load(std::memory_order_relaxed), &one, sizeof(one));
  } else {
    // A forked child, or a signal that came while the handler was removed. It is delivered again
    // when this function has returned.
    ::sigaction(signal_number, &former_action, nullptr);
    ::raise(signal_number);
  }
  errno = error_before;
}

class HandledSignal : public StopSignal {
 public:
  explicit HandledSignal(int fd) : StopSignal(fd) {}
  ~HandledSignal() override { RestoreOwn(); }

  bool Take() override {
    uint64_t count = 0;
    return ::read(fd(), &count, sizeof(count)) == static_cast<ssize_t>(sizeof(count));
  }
  void Restore() override { RestoreOwn(); }

 private:
  static void RestoreOwn() {
    // A forked child has no part in it.
    if (handler_process.load() != ::getpid()) return;
    struct sigaction now = {};
    ::sigaction(SIGTERM, nullptr, &now);
    if (now.sa_handler == OnTerm) ::sigaction(SIGTERM, &former_action, nullptr);
    handler_process = 0;
  }
};

absl::Status Failed(const char* what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StopSignal>> StopSignal::Block() {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
  const int fd = ::signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return Failed("signalfd", errno);
  return std::unique_ptr<StopSignal>(std::make_unique<BlockedSignal>(fd));
}

absl::StatusOr<std::unique_ptr<StopSignal>> StopSignal::Handle() {
  // Never closed: a handler may still run, on any thread, after it was removed.
  static const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return Failed("eventfd", errno);
  pid_t nobody = 0;
  if (!handler_process.compare_exchange_strong(nobody, ::getpid())) {
    return absl::FailedPreconditionError("SIGTERM is handled already in this process");
  }
  auto signal = std::make_unique<HandledSignal>(fd);
  signal->Take();  // Of an earlier one.
  handler_fd = fd;
  struct sigaction action = {};
  action.sa_handler = OnTerm;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, nullptr, &former_action);
  ::sigaction(SIGTERM, &action, nullptr);
  return std::unique_ptr<StopSignal>(std::move(signal));
}

void StopSignal::LetThrough() {
  Restore();
  ::kill(::getpid(), SIGTERM);
}

}  // namespace paceline
