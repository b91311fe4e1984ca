#include "worker/shim/oom_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

int64_t CountNow() {
  const int fd = ::open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = ::read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(size));
  }
  ::close(fd);
  return OomKills(text);
}

}  // namespace

int64_t OomKills(absl::string_view vmstat) {
  for (absl::string_view line : absl::StrSplit(vmstat, '\n')) {
    int64_t count = 0;
    if (absl::ConsumePrefix(&line, "oom_kill ") && absl::SimpleAtoi(line, &count)) return count;
  }
  return 0;
}

OomWatch::OomWatch() : older_(CountNow()), newer_(older_) {}

void OomWatch::Sample() {
  older_ = newer_;
  newer_ = CountNow();
}

bool OomWatch::Grew() const { return CountNow() > older_; }

}  // namespace paceline
