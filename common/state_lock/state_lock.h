// The lock on a daemon's state directory: allows one daemon per directory, and gives those who want
// to signal it a process id that cannot belong to another process.
//
// The lock is flock on `<directory>/lock`, whose first line is the holder's process id. The id
// counts only while the lock is held; the kernel releases the lock with the process.
#ifndef COMMON_STATE_LOCK_STATE_LOCK_H_
#define COMMON_STATE_LOCK_STATE_LOCK_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace paceline {

// Thread-compatible.
class StateLock {
 public:
  // Creates the directory if it is missing and takes its lock. PermissionDenied: it cannot be
  // created or written; ResourceExhausted: no space; FailedPrecondition: another process, which is
  // named, holds it.
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
