// The process of one trainer, seen through its shim. It was started by this daemon, or by an
// earlier one and found again by its lock.
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
    std::string trainer_dir;               // Must exist.
    std::string own_dir;                   // Must exist and be writable by the trainer's user.
    Confinement confinement;
    // The job's paths must be inside these folders (worker/shim/allowed_roots.h).
    std::vector<std::string> roots;
    std::vector<NamedPath> paths;
    // For a command (shim/main.cc); empty: the program is a trainer.
    std::string working_directory;
    std::string environment_file;
    int64_t log_segment_bytes = 0;
  };

  // Takes the trainer's lock and starts the shim, which inherits the lock. Safe in a multithreaded
  // process.
  static absl::StatusOr<TrainerProcess> Start(const Command& command);

  // Finds the process that holds the lock in `trainer_dir`; nothing when nobody holds it.
  // Unavailable: the holder has not written its ids yet; try again.
  static absl::StatusOr<std::optional<TrainerProcess>> Adopt(const std::string& trainer_dir);

  TrainerProcess(TrainerProcess&& other) noexcept;
  TrainerProcess& operator=(TrainerProcess&& other) noexcept;
  // Does not end the process.
  ~TrainerProcess();

  // Becomes readable when the shim has ended, and so the trainer before it.
  int fd() const { return fd_; }

  pid_t shim() const { return shim_; }

  // Whether process `pid` is the trainer, as far as is known: the one named by the lock in
  // `trainer_dir`, or a child of the shim.
  bool IsTrainer(pid_t pid, const std::string& trainer_dir) const;

  // Whether process `pid` descends from the trainer: a program under a wrapper (bash -c, uv run) is
  // the rank.
  bool HasStarted(pid_t pid) const;

  // Asks the trainer to end at the next step.
  void Terminate() const;

  // Ends the trainer's process group, even if it or the shim is suspended.
  void Kill() const;

  // Reaps the shim if it has ended and is our child. False when it has not ended; once `fd` is
  // readable, it has.
  bool Reap() const;

 private:
  friend class StandbyProcess;

  TrainerProcess(int fd, pid_t shim) : fd_(fd), shim_(shim) {}

  int fd_;
  pid_t shim_;
};

// A shim with an interpreter that has imported a command's modules in advance and waits to become
// that command (python/paceline/standby.py).
//
// Thread-compatible.
class StandbyProcess {
 public:
  // Starts `command.program` in the environment of the rank it stands by for; ignores trainer_dir
  // and own_dir. The interpreter reads the names of the modules from `modules_file`.
  static absl::StatusOr<StandbyProcess> Start(const TrainerProcess::Command& command,
                                              const std::string& modules_file);

  StandbyProcess(StandbyProcess&& other) noexcept;
  StandbyProcess& operator=(StandbyProcess&& other) noexcept;
  // Makes the interpreter end, unless it has become a trainer.
  ~StandbyProcess();

  // What has happened since the last call: OK when it is ready; an error when it has ended, and
  // why; nothing when there is no news.
  std::optional<absl::Status> News();

  // Turns it into the trainer of `command`; uses only its directories and environment_file.
  // Requires: it is ready. After an error this object is useless.
  absl::StatusOr<TrainerProcess> Become(const TrainerProcess::Command& command);

  // Ends it. The caller must reap the result.
  TrainerProcess End() &&;

 private:
  StandbyProcess(TrainerProcess process, int socket)
      : process_(std::move(process)), socket_(socket) {}

  TrainerProcess process_;
  int socket_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_PROCESS_H_
