// The process of one trainer, seen through its shim: started by this daemon, or by an earlier
// one and found again by its lock.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_TRAINERS_TRAINER_PROCESS_H_
#define WORKER_DAEMON_TRAINERS_TRAINER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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

  // Takes the shim off the process table if it has ended and is a child of ours. False: it has not
  // ended, which it has once `fd` is readable.
  bool Reap() const;

 private:
  friend class StandbyProcess;

  TrainerProcess(int fd, pid_t shim) : fd_(fd), shim_(shim) {}

  int fd_;
  pid_t shim_;
};

// A shim with an interpreter that has imported what a command will import, and waits to become it
// (python/paceline/standby.py).
//
// Thread-compatible.
class StandbyProcess {
 public:
  // Starts `command.program`, in the environment of a rank whose standby it is; trainer_dir and
  // own_dir are not used. It reads the names of the modules from `modules_file`.
  static absl::StatusOr<StandbyProcess> Start(const TrainerProcess::Command& command,
                                              const std::string& modules_file);

  StandbyProcess(StandbyProcess&& other) noexcept;
  StandbyProcess& operator=(StandbyProcess&& other) noexcept;
  // All of it ends by itself, unless it has become a trainer.
  ~StandbyProcess();

  // What it has told since: OK when it is ready; an error says why it does not stand by, and it has
  // ended then. Nothing: no news.
  std::optional<absl::Status> News();

  // It becomes the trainer of `command`, of which the directories and environment_file count.
  // Requires: it is ready. On an error it is of no use any more.
  absl::StatusOr<TrainerProcess> Become(const TrainerProcess::Command& command);

  // Ends it. To be reaped.
  TrainerProcess End() &&;

 private:
  StandbyProcess(TrainerProcess process, int socket)
      : process_(std::move(process)), socket_(socket) {}

  TrainerProcess process_;
  int socket_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_PROCESS_H_
