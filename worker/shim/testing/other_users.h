// For tests that need processes or files of another user.
#ifndef WORKER_SHIM_TESTING_OTHER_USERS_H_
#define WORKER_SHIM_TESTING_OTHER_USERS_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace paceline {

inline constexpr uid_t kNobody = 65534;  // User and group id.

// Returns why this process cannot become kNobody; empty when it can.
inline std::string NoOtherUsers() {
  if (::geteuid() != 0) return "only root starts processes of other users";
  std::ifstream map("/proc/self/uid_map");
  uint64_t first = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  while (map >> first >> outside >> count) {
    if (first <= kNobody && kNobody < first + count) return "";
  }
  return "there are no other users in this user namespace (a sandbox?)";
}

}  // namespace paceline

// Skips a test that needs another user. Put it first.
#define PACELINE_NEEDS_OTHER_USERS() \
  if (const std::string why = ::paceline::NoOtherUsers(); !why.empty()) GTEST_SKIP() << why

#endif  // WORKER_SHIM_TESTING_OTHER_USERS_H_
