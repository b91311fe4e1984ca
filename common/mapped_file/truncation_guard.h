// Allows reading a mapping whose file another process may truncate.
//
// The kernel kills a process that touches a page beyond the file's end (SIGBUS). While a guard
// lives, its thread reads zeros there instead: the guard's range is remapped for good without the
// file. So a trainer cannot crash the daemon that reads its ring.
//
//   TruncationGuard guard(file.data(), file.size());
//   Copy(file);
//   if (guard.truncated()) ...  // Copied bytes may be zeros.
//
// The first guard installs a SIGBUS handler for the process; faults outside all guards end the
// process as usual. At most one guard per thread, used by the thread that made it.
#ifndef COMMON_MAPPED_FILE_TRUNCATION_GUARD_H_
#define COMMON_MAPPED_FILE_TRUNCATION_GUARD_H_

#include <cstddef>

namespace paceline {

class TruncationGuard {
 public:
  // `begin` is a mapping of `size` bytes that must outlive the guard.
  TruncationGuard(void* begin, size_t size);
  ~TruncationGuard();
  TruncationGuard(const TruncationGuard&) = delete;
  TruncationGuard& operator=(const TruncationGuard&) = delete;

  bool truncated() const;
};

}  // namespace paceline

#endif  // COMMON_MAPPED_FILE_TRUNCATION_GUARD_H_
