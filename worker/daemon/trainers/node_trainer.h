// One trainer of this node, from its start to the report of its end: its files, its process and its
// ring. All decisions are made elsewhere (core/trainer_set.h).
//
// Everything that a later daemon needs is in the trainer dir: `plan` until the trainer is
// forgotten, `seen` (its last status), `result` once its end was judged.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_TRAINERS_NODE_TRAINER_H_
#define WORKER_DAEMON_TRAINERS_NODE_TRAINER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "proto/trainer.pb.h"
#include "proto/worker.pb.h"
#include "worker/daemon/core/lease.h"
#include "worker/daemon/core/trainer_end.h"
#include "worker/daemon/state/node_paths.h"
#include "worker/daemon/trainers/asked_collectives.h"
#include "worker/daemon/trainers/command_rank.h"
#include "worker/daemon/trainers/process_state.h"
#include "worker/daemon/trainers/ring_tail.h"
#include "worker/daemon/trainers/trainer_process.h"
#include "worker/daemon/trainers/trainer_setup.h"
#include "worker/daemon/trainers/trainer_status.h"

namespace paceline {

class NodeTrainer {
 public:
  // What an earlier daemon left of a trainer.
  enum class Remains {
    kOld,      // Forgotten; only its log is left.
    kUnborn,   // Planned but never started.
    kStarted,  // Everything else.
  };
  static Remains Examine(const NodePaths& paths, const TrainerId& id);

  // `setup` outlives this object.
  NodeTrainer(const TrainerSetup& setup, TrainerId id);

  // Starts the process. A trainer that has run before is not started again; ended() is true then.
  // On an error nothing runs: call FailStart. A command only starts with Launch, once CanLaunch()
  // says so: of a session when its code is here, of others when the plan also names rank 0's
  // address.
  absl::Status Start(const v1::TrainerPlan& plan);
  // A command does not launch while the code that travels with it is still being fetched.
  void SetWaitsForCode(bool waits) { waits_for_code_ = waits; }
  // For a command that waits to be launched: whether its plan is complete (CanLaunch), and its
  // start. Errors as for Start.
  bool IsUnlaunched() const;
  bool CanLaunch() const;
  absl::StatusOr<TrainerProcess::Command> PrepareLaunch() const;
  // `stood_by`: a standby interpreter that has become the command, or nothing: start one.
  absl::Status Launch(const TrainerProcess::Command& command,
                      std::optional<TrainerProcess> stood_by);
  void FailStart(const absl::Status& status);
  // Records that the trainer was stopped before it was started.
  void Skip(const v1::TrainerPlan& plan);

  // Takes over what an earlier daemon started. Unavailable: try again soon. On OK it runs, or has
  // ended(), or Judge must still be called.
  absl::Status Adopt();

  // Records that a command was stopped while it waited to be launched.
  void EndUnlaunched();

  // For a standby interpreter of a command's next start: whether one is possible, the program as it
  // was started, its environment (each "KEY=value" followed by a NUL), and the modules it imported.
  bool IsWatchedCommand() const { return !HasEngine() && ring_.has_value(); }
  TrainerProcess::Command UserProgram() const;
  std::string EnvironmentText() const { return command_.EnvironmentText(); }
  std::string ModulesPath() const;
  std::optional<std::string> LeftModules() const;

  // Keeps the plan for a later daemon.
  void SetPlan(const v1::TrainerPlan& plan);
  const v1::TrainerPlan& plan() const { return plan_; }

  // Takes a status. A change of figures alone needs no report.
  Tell OnStatus(const v1::TrainerStatus& status);

  // Reads the ring, the process id, and whether the process is suspended. `now`: BootNow.
  Tell Poll(absl::Time now);

  // Begins saving the threads' stacks and returns the process to look at; nothing when they are not
  // wanted or were saved already. The suspension that this causes is not reported.
  std::optional<pid_t> BeginStacks();
  std::string StacksPath() const;
  void EndStacks(bool saved);

  // If the plan of a watched command wants it: asks which collectives it has entered and looks for
  // the answer. True while an answer is outstanding. `now`: BootNow.
  bool AskCollectives(absl::Time now, Tell& tell);

  // Input for core/lease.h.
  HeldTrainer Held() const;

  // Asks the trainer to end, or kills it. Requires: it has a process.
  void Stop(bool kill);

  // Records `why` and kills the trainer. Does so only once.
  void Fence(const std::string& why);

  // Checks that process `pid` belongs to this trainer. PermissionDenied: it does not. Unavailable:
  // this trainer has no process, or none that is known yet.
  absl::Status Vouch(pid_t pid) const;

  // Determines how the trainer ended. Requires: its process is gone.
  void Judge(bool stop_requested);
  // Writes that to disk and removes the ring. Separate from Judge, so that the controller does not
  // wait for a disk. Requires: ended().
  void KeepResult();

  // Removes what only a living trainer needs: the plan and the ring. The log stays.
  void Forget();

  bool ended() const { return result_.has_value(); }
  const std::optional<TrainerProcess>& process() const { return process_; }
  const std::optional<RingTail>& ring() const { return ring_; }
  std::optional<RingTail>& ring() { return ring_; }
  const TrainerId& id() const { return id_; }
  // Its current part in the job: generation and rank (-1: a spare) of its membership, or of id()
  // when it has none.
  TrainerId Member() const;
  // Names process and membership in log lines: "trainer=job-1.1.2 generation=3 rank=0".
  std::string Named() const;

  v1::TrainerReport Report() const;
  v1::TrainerCommand Command() const;

 private:
  absl::Status Prepare(const v1::TrainerPlan& plan);
  absl::Status OpenRing();
  // Reads the process id from the lock; false while it is not there yet.
  bool FindPid();
  TrainerProcess::Command StartCommand() const;
  // Its program is the job's own.
  bool IsCommand() const { return !plan_.spec().command().empty(); }
  // It reports by itself: a trainer of Paceline's, or a command that is a session.
  bool HasEngine() const;
  // A program that was never seen to make a step, and may never make one.
  bool IsSilentCommand() const { return !HasEngine() && steps_seen_ == 0; }
  v1::Progress ProgressAt(uint64_t now_ns) const;
  void SetResult(v1::TrainerReport result);
  // Reads a file of the trainer's own directory, which may be anything; nothing on failure.
  std::optional<std::string> OwnFile(const char* name, size_t most_bytes) const;
  // Returns what the trainer reported last: its own file is newer than what came by the socket.
  LastWords TakeLastWords();
  LastWords WordsOfCommand(const std::optional<ProcessEnd>& end) const;
  LastWords WordsAtEnd(const std::optional<ProcessEnd>& end);
  std::string File(const char* name) const;
  // Address of its store for other ranks: "host:port/secret".
  std::string StoreAddress() const;
  // Reads the secret from the trainer's dir; the trainer does not report it.
  absl::Status TakeStoreSecret();

  // Constant.
  const TrainerSetup& setup_;
  const TrainerId id_;
  const std::string dir_;

  // Owned by the loop.
  v1::TrainerPlan plan_;
  v1::TrainerStatus status_;
  std::string store_host_;
  std::string store_secret_;
  int64_t pid_ = 0;
  std::optional<ProcessState> state_;  // For the process pid_.
  bool suspended_ = false;
  bool unlaunched_ = false;  // Of a command: Launch has not been called.
  bool waits_for_code_ = false;
  bool fenced_ = false;
  bool killed_ = false;  // By this daemon, or perhaps by an earlier one.
  enum class Stacks { kNone, kBeingSaved, kSaved } stacks_ = Stacks::kNone;
  uint64_t steps_seen_ = 0;
  absl::Time last_step_;  // When steps_seen_ last grew; BootNow.
  CommandRank command_;
  AskedCollectives collectives_;
  bool was_asked_ = false;  // Since the last LookForLife: activity may be due to us.
  std::optional<TrainerProcess> process_;
  std::optional<RingTail> ring_;
  std::optional<v1::TrainerReport> result_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_NODE_TRAINER_H_
