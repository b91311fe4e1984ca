// Tells whether a trainer is alive, by a file lock that cannot outlive it.
//
// The daemon takes flock on `<trainer dir>/lock` before it starts the shim, which inherits it (the
// lock belongs to the open file, not to a process). So even a trainer that is about to start always
// holds the lock. The kernel releases it when the last of the two processes is gone. The file names
// the processes, one per line: shim, trainer. The ids count only while the lock is held, which
// makes them safe from reuse.
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
  // 0 when not alive, or before the shim has written the ids.
  pid_t shim = 0;
  pid_t trainer = 0;
};

// Reads the state of the lock in `trainer_dir`. Without a lock file, not alive. Fails when the lock
// cannot be read.
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
