#include "worker/trainer/telemetry/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace paceline {
namespace {

// Returns the value of a line "Key:   123 kB" in bytes.
int64_t BytesOf(absl::string_view status, absl::string_view key) {
  const size_t at = status.find(key);
  if (at == status.npos) return 0;
  return std::strtoll(status.data() + at + key.size(), nullptr, 10) * 1024;
}

}  // namespace

HostMemory ReadHostMemory() {
  // The kernel makes the whole file at the first read (proc(5)).
  char text[4096] = {};
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (size <= 0) return {};
  const absl::string_view status(text, static_cast<size_t>(size));
  return {BytesOf(status, "VmRSS:"), BytesOf(status, "VmHWM:")};
}

void ResetRssPeak() {
  // Writing 5 resets the peak to the present size (proc(5), clear_refs).
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  // Some kernels refuse this; the peak is then since the process's start.
  [[maybe_unused]] const ssize_t written = write(fd, "5", 1);
  close(fd);
}

bool IsOutOfMemory(absl::string_view message) {
  return absl::StrContains(message, "can't allocate memory") ||
         absl::StrContains(message, "out of memory");
}

}  // namespace paceline
