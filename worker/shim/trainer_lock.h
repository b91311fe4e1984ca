// Whether a trainer lives: a file lock that cannot outlive it.
//
// The daemon takes flock on `<trainer dir>/lock` before it starts the shim, and the shim
// inherits it (it belongs to the open file, not to a process), so that there is no moment in
// which a trainer is about to live and no lock says so. The kernel releases it when the last
// of the two is gone. The file's contents name the processes, one per line: the shim, the
// trainer. They count only while the lock is held, which makes them safe from reused ids.
//
// To end a trainer, signal its shim: SIGTERM is passed on to the trainer, SIGUSR1 kills the
// trainer's process group.
#ifndef WORKER_SHIM_TRAINER_LOCK_H_
#define WORKER_SHIM_TRAINER_LOCK_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct TrainerProcesses {
  bool alive = false;
  // 0 when not alive, or in the moment before the shim has written them.
  pid_t shim = 0;
  pid_t trainer = 0;
};

// What the lock in `trainer_dir` says at this moment. A directory without a lock is not
// alive. Fails when the lock cannot be read.
absl::StatusOr<TrainerProcesses> ReadTrainerLock(const std::string& trainer_dir);

// The lock, held. Thread-compatible.
class TrainerLock {
 public:
  // Creates and takes the lock; the descriptor closes on exec. FailedPrecondition when
  // another process holds it.
  static absl::StatusOr<TrainerLock> Take(const std::string& trainer_dir);

  // Takes over a lock that was inherited as descriptor `fd`.
  explicit TrainerLock(int fd) : fd_(fd) {}

  TrainerLock(TrainerLock&& other) noexcept;
  TrainerLock& operator=(TrainerLock&& other) noexcept;
  // Releases the lock, unless another process has inherited it.
  ~TrainerLock();

  int fd() const { return fd_; }

  absl::Status WriteProcesses(pid_t shim, pid_t trainer) const;

 private:
  int fd_;
};

}  // namespace paceline

#endif  // WORKER_SHIM_TRAINER_LOCK_H_
