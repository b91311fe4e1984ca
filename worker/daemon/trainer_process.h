// The process of one trainer, seen through its shim: started by this daemon, or by an earlier
// one and found again by its lock.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_TRAINER_PROCESS_H_
#define WORKER_DAEMON_TRAINER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/shim/allowed_roots.h"
#include "worker/shim/confinement.h"

namespace paceline {

class TrainerProcess {
 public:
  struct Command {
    std::string shim;                      // Path of paceline-shim.
    std::vector<std::string> program;      // The trainer and its arguments.
    std::vector<std::string> environment;  // "KEY=value".
    std::string trainer_dir;               // Exists.
    std::string own_dir;                   // Exists, and the trainer's user can write it.
    Confinement confinement;
    // Which paths of the job have to lie in which folders (worker/shim/allowed_roots.h).
    std::vector<std::string> roots;
    std::vector<NamedPath> paths;
    // Of a command (shim/main.cc); empty: the program is a trainer.
    std::string working_directory;
    std::string environment_file;
    int64_t log_segment_bytes = 0;
  };

  // Takes the trainer's lock and starts the shim, which inherits it. Safe in a process with
  // many threads.
  static absl::StatusOr<TrainerProcess> Start(const Command& command);

  // The process that holds the lock in `trainer_dir`; nothing when none does. Unavailable when
  // one does that has not told its ids yet: ask again.
  static absl::StatusOr<std::optional<TrainerProcess>> Adopt(const std::string& trainer_dir);

  TrainerProcess(TrainerProcess&& other) noexcept;
  TrainerProcess& operator=(TrainerProcess&& other) noexcept;
  // Leaves the process alone.
  ~TrainerProcess();

  // A descriptor that becomes readable when the shim, and the trainer before it, has ended.
  int fd() const { return fd_; }

  pid_t shim() const { return shim_; }

  // Whether the process `pid` is the trainer, as far as that can be told: the one that the lock in
  // `trainer_dir` names, or a child of the shim.
  bool IsTrainer(pid_t pid, const std::string& trainer_dir) const;

  // Whether the trainer has started the process `pid`, or one that has: a program under a wrapper
  // (bash -c, uv run) is the rank that it wraps.
  bool HasStarted(pid_t pid) const;

  // Asks the trainer to end at the next step.
  void Terminate() const;

  // Ends the trainer's process group, even if it or the shim is suspended.
  void Kill() const;

  // To be called once `fd` is readable: takes the ended shim off the process table if it is a
  // child of ours.
  void Reap() const;

 private:
  TrainerProcess(int fd, pid_t shim) : fd_(fd), shim_(shim) {}

  int fd_;
  pid_t shim_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINER_PROCESS_H_
