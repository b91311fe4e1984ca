#include "common/mapped_file/truncation_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstdint>

namespace paceline {
namespace {

// The range of this thread's guard. The handler runs on the thread that touched the page.
struct Range {
  volatile uintptr_t begin = 0;
  volatile size_t size = 0;
  volatile sig_atomic_t truncated = 0;
};
thread_local Range range;

void OnBusError(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (range.size > 0 && address - range.begin < range.size) {
    void* const begin = reinterpret_cast<void*>(range.begin);
    const void* const zeros = ::mmap(begin, range.size, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros != MAP_FAILED) {
      range.truncated = 1;
      return;  // The access is repeated.
    }
  }
  // Not ours: repeating the access then ends the process.
  ::signal(SIGBUS, SIG_DFL);
}

bool Install() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  return ::sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace

TruncationGuard::TruncationGuard(void* begin, size_t size) {
  static const bool installed = Install();
  static_cast<void>(installed);
  range.begin = reinterpret_cast<uintptr_t>(begin);
  range.truncated = 0;
  range.size = size;
}

TruncationGuard::~TruncationGuard() { range.size = 0; }

bool TruncationGuard::truncated() const { return range.truncated != 0; }

}  // namespace paceline
