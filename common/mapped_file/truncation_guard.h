// Reading a mapping whose file another process may cut short.
//
// The kernel kills whoever touches a page that the file has no longer (SIGBUS). While a guard
// lives, a thread that does so in the guard's range reads zeros instead: the range is mapped anew
// without the file, for good. So a trainer cannot end the daemon that reads its ring.
//
//   TruncationGuard guard(file.data(), file.size());
//   Copy(file);
//   if (guard.truncated()) ...  // What was copied may be zeros.
//
// The first guard installs a handler of SIGBUS for the process; a fault outside of all guards ends
// the process as ever. One guard a thread at a time; of the thread that made it.
#ifndef COMMON_MAPPED_FILE_TRUNCATION_GUARD_H_
#define COMMON_MAPPED_FILE_TRUNCATION_GUARD_H_

#include <cstddef>

namespace paceline {

class TruncationGuard {
 public:
  // `begin`: of a mapping of `size` bytes that outlives the guard.
  TruncationGuard(void* begin, size_t size);
  ~TruncationGuard();
  TruncationGuard(const TruncationGuard&) = delete;
  TruncationGuard& operator=(const TruncationGuard&) = delete;

  bool truncated() const;
};

}  // namespace paceline

#endif  // COMMON_MAPPED_FILE_TRUNCATION_GUARD_H_
