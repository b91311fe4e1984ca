// The lock on a daemon's state directory: one daemon per directory, and whoever wants to
// signal that daemon finds a process id that cannot be somebody else's.
//
// The lock is flock on `<directory>/lock`, whose first line is the holder's process id. It
// counts only while the lock is held, and the kernel releases it with the process.
#ifndef COMMON_STATE_LOCK_STATE_LOCK_H_
#define COMMON_STATE_LOCK_STATE_LOCK_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace paceline {

// Thread-compatible.
class StateLock {
 public:
  // Makes the directory if it is missing, and takes its lock. PermissionDenied: it cannot
  // be made or written; ResourceExhausted: no space; FailedPrecondition: held by another
  // process, which is named.
  static absl::StatusOr<StateLock> Take(const std::string& directory);

  StateLock(StateLock&& other) noexcept;
  StateLock& operator=(StateLock&& other) noexcept;
  ~StateLock();

 private:
  explicit StateLock(int fd) : fd_(fd) {}

  int fd_;
};

// The process that holds the directory's lock; 0 if none does.
pid_t StateLockHolder(const std::string& directory);

}  // namespace paceline

#endif  // COMMON_STATE_LOCK_STATE_LOCK_H_
