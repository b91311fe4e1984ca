// How many files a process may have open.
#ifndef COMMON_OPEN_FILES_H_
#define COMMON_OPEN_FILES_H_

#include <sys/resource.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace paceline {

// Below it a daemon or a trainer of a few ranks runs out of them.
inline constexpr rlim_t kMinOpenFiles = 256;

// There are programs that go through all that they may open.
inline constexpr rlim_t kMaxOpenFiles = 1 << 20;

// Lets this process and those that it starts open as many files as the hard limit has,
// kMaxOpenFiles at most: the soft one (1024 on most machines) is for programs that use select(2).
// ResourceExhausted when the hard limit is less than kMinOpenFiles.
inline absl::Status RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  const rlim_t most = std::min(limit.rlim_max, kMaxOpenFiles);
  if (limit.rlim_cur < most) {
    limit.rlim_cur = most;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // Up to the hard limit everybody may.
  }
  if (limit.rlim_max >= kMinOpenFiles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this process may open ", limit.rlim_max, " files and needs ", kMinOpenFiles,
                   " at least: raise the limit (ulimit -Hn, or LimitNOFILE= of the service)"));
}

}  // namespace paceline

#endif  // COMMON_OPEN_FILES_H_
