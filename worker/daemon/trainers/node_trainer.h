// One trainer of this node, from its start to the report of its end: its files, its process
// and its ring. Decides nothing (core/trainer_set.h does).
//
// All that a later daemon needs lies in the trainer dir: `plan` as long as the trainer is not
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
    kOld,      // Forgotten; only its log counts.
    kUnborn,   // Planned, and never started.
    kStarted,  // Everything else.
  };
  static Remains Examine(const NodePaths& paths, const TrainerId& id);

  // `setup` outlives this object.
  NodeTrainer(const TrainerSetup& setup, TrainerId id);

  // Starts the process. When it ran before, it is not started again: ended() is true then. On
  // an error nothing runs; call FailStart. A command is not started until the plan says where rank
  // 0 is to be found: CanLaunch, Launch.
  absl::Status Start(const v1::TrainerPlan& plan);
  // Of a command: the code that travels with it is on its way, and so it is not ready.
  void SetWaitsForCode(bool waits) { waits_for_code_ = waits; }
  // Of a command that waits: whether the plan has all that it needs; and starts it then, with
  // errors as of Start.
  bool IsUnlaunched() const;
  bool CanLaunch() const;
  absl::StatusOr<TrainerProcess::Command> PrepareLaunch() const;
  // `stood_by`: the process in which an interpreter became the command; without, it is started.
  absl::Status Launch(const TrainerProcess::Command& command,
                      std::optional<TrainerProcess> stood_by);
  void FailStart(const absl::Status& status);
  // It was to end before it was started.
  void Skip(const v1::TrainerPlan& plan);

  // Takes over what an earlier daemon started. Unavailable: ask again soon. Afterwards it
  // runs, or ended(), or its end has still to be judged (Judge).
  absl::Status Adopt();

  // It was to end while it waited to be launched.
  void EndUnlaunched();

  // Of a command, for an interpreter that stands by for its next start: whether one may, the
  // program as it is started, its variables ("KEY=value" and a NUL each), and what it has imported.
  bool IsWatchedCommand() const { return IsCommand() && ring_.has_value(); }
  TrainerProcess::Command UserProgram() const;
  std::string EnvironmentText() const { return command_.EnvironmentText(); }
  std::string ModulesPath() const;
  std::optional<std::string> LeftModules() const;

  // Keeps the plan for a later daemon.
  void SetPlan(const v1::TrainerPlan& plan);
  const v1::TrainerPlan& plan() const { return plan_; }

  // Figures alone are worth no report of their own.
  Tell OnStatus(const v1::TrainerStatus& status);

  // Reads the ring, the process id, and whether the process is suspended. `now`: BootNow.
  Tell Poll(absl::Time now);

  // While its threads' stacks are being saved: to look at them suspends it, which is not told.
  // The process to look at; nothing when they are not wanted, or were saved already.
  std::optional<pid_t> BeginStacks();
  std::string StacksPath() const;
  void EndStacks(bool saved);

  // Of a watched command, as its plan wants: asks which collectives it has entered, looks for the
  // answer, and returns whether one is still waited for. `now`: BootNow.
  bool AskCollectives(absl::Time now, Tell& tell);

  // For core/lease.h.
  HeldTrainer Held() const;

  // Asks it to end, or kills it. Requires: it has a process.
  void Stop(bool kill);

  // Kills it, and puts `why` on record first. Once only.
  void Fence(const std::string& why);

  // Whether the process `pid` is this trainer's. PermissionDenied: it is not; Unavailable: this
  // trainer has no process, or none that is known yet.
  absl::Status Vouch(pid_t pid) const;

  // Finds out how it ended. Requires: its process is gone.
  void Judge(bool stop_requested);
  // Puts that on record and removes its ring. Apart from the above, since the controller should
  // not wait for a disk. Requires: ended().
  void KeepResult();

  // Removes what is only for the living: the plan and the ring. The log stays.
  void Forget();

  bool ended() const { return result_.has_value(); }
  const std::optional<TrainerProcess>& process() const { return process_; }
  const std::optional<RingTail>& ring() const { return ring_; }
  std::optional<RingTail>& ring() { return ring_; }
  const TrainerId& id() const { return id_; }
  // What it is to the job by now: its generation and rank (-1: a spare) of its membership, those of
  // id() without one.
  TrainerId Member() const;
  // Process and member, for log lines: "trainer=job-1.1.2 generation=3 rank=0".
  std::string Named() const;

  v1::TrainerReport Report() const;
  v1::TrainerCommand Command() const;

 private:
  absl::Status Prepare(const v1::TrainerPlan& plan);
  absl::Status OpenRing();
  // Reads the process id from the lock; false while it is not on record.
  bool FindPid();
  TrainerProcess::Command StartCommand() const;
  bool IsCommand() const { return !plan_.spec().command().empty(); }
  // It has made no step that was seen, and may never make one.
  bool IsSilentCommand() const { return IsCommand() && steps_seen_ == 0; }
  v1::Progress ProgressAt(uint64_t now_ns) const;
  void SetResult(v1::TrainerReport result);
  // A file of its own directory, which may be anything; nothing: there is none of that size.
  std::optional<std::string> OwnFile(const char* name, size_t most_bytes) const;
  // The trainer's own file says more than what came by the socket, which may have been late.
  LastWords TakeLastWords();
  LastWords WordsOfCommand(const std::optional<ProcessEnd>& end) const;
  std::string File(const char* name) const;
  // Where others meet in its store: "host:port/secret".
  std::string StoreAddress() const;
  // Reads what of that the trainer does not tell.
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
  std::optional<ProcessState> state_;  // Of the process pid_.
  bool suspended_ = false;
  bool waits_for_code_ = false;
  bool fenced_ = false;
  bool killed_ = false;  // By this daemon, or maybe by an earlier one.
  enum class Stacks { kNone, kBeingSaved, kSaved } stacks_ = Stacks::kNone;
  uint64_t steps_seen_ = 0;
  absl::Time last_step_;  // When they were seen; BootNow.
  CommandRank command_;
  AskedCollectives collectives_;
  bool was_asked_ = false;  // Since LookForLife has looked: it was not active by itself.
  std::optional<TrainerProcess> process_;
  std::optional<RingTail> ring_;
  std::optional<v1::TrainerReport> result_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_NODE_TRAINER_H_
