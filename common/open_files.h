// How many files a process may have open.
#ifndef COMMON_OPEN_FILES_H_
#define COMMON_OPEN_FILES_H_

#include <sys/resource.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace paceline {

// A daemon, or a trainer with a few ranks, needs more than this.
inline constexpr rlim_t kMinOpenFiles = 256;

// An upper bound, since some programs go through all possible descriptors.
inline constexpr rlim_t kMaxOpenFiles = 1 << 20;

// Raises this process's limit on open files, which its children inherit, to the hard limit, at most
// kMaxOpenFiles: the soft one (1024 on most machines) only serves programs with select(2).
// ResourceExhausted when the hard limit is below kMinOpenFiles.
inline absl::Status RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  const rlim_t most = std::min(limit.rlim_max, kMaxOpenFiles);
  if (limit.rlim_cur < most) {
    limit.rlim_cur = most;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // Up to the hard limit this always works.
  }
  if (limit.rlim_max >= kMinOpenFiles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this process may open ", limit.rlim_max, " files and needs ", kMinOpenFiles,
                   " at least: raise the limit (ulimit -Hn, or LimitNOFILE= of the service)"));
}

}  // namespace paceline

#endif  // COMMON_OPEN_FILES_H_
