// Acts as the worker daemon, and as the controller behind it, for real trainer processes of one job
// on the loopback network.
//
// It starts one process per rank, answers statuses with commands, announces rank 0's store as soon
// as it is known, sends memberships, plans, profile requests and save orders, and records how the
// processes end. All ranks count as one node. Trainers are numbered in the order of their start:
// those of Launch by rank, then the spares.
//
// Thread-compatible. Its own failures (unlike a trainer's) abort the program.
#ifndef WORKER_TRAINER_TESTING_FAKE_DAEMON_H_
#define WORKER_TRAINER_TESTING_FAKE_DAEMON_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"
#include "proto/trainer.pb.h"

namespace paceline {

class FakeDaemon {
 public:
  struct Options {
    std::string trainer;                  // Path of the program.
    std::string server;                   // Of trainer_server; empty: do not use it.
    std::string directory;                // For the trainers' directories; must exist.
    std::vector<std::string> extra_args;  // For each trainer.
    // Names of variables whose present values trainers of the server get: `--set NAME=VALUE`, and
    // an empty one for none.
    std::vector<std::string> variables;
    int threads = 1;                             // Per trainer.
    absl::Duration patience = absl::Minutes(2);  // Time limit of Serve.
    // Tells rank 0 to commit a save when all ranks report that their shards are durable.
    bool commit_saves = true;
    v1::ObjectStores object_stores;  // Of the node.
  };

  explicit FakeDaemon(Options options);
  // Kills trainers that still run.
  ~FakeDaemon();

  // Starts spec.ranks() trainers of the only job, and spec.recovery().spares() more. Requires:
  // those of an earlier generation have ended. `restore_from`: directory of a checkpoint.
  void Launch(const v1::JobSpec& spec, int64_t generation = 1,
              const std::string& restore_from = "");
  static std::string JobId();

  // Starts another trainer for this rank of this generation. Returns its number.
  int Add(int64_t generation, int rank);

  // Begins the next generation with these trainers as its ranks, and sends its plan to all. Before
  // the first call, memberships are only sent if the job recovers.
  struct Members {
    std::vector<int> trainers;  // By rank.
    bool planned = false;
    int batch_per_rank = 0;
    int accumulation_steps = 0;
    std::optional<v1::Strategy> strategy = {};  // Unset: that of the spec.
    // By trainers that leave as planned, and hand their state over: their ranks.
    std::map<int, int> hand_over = {};
    bool restores = false;  // All go back to the newest complete copies.
    // As in Membership.
    bool averages_first = false;
    std::optional<int64_t> saved_step = {};
  };
  void SetMembers(const Members& members);
  int64_t generation() const { return generation_; }
  // Whether all members train in the newest generation.
  bool RendezvousDone() const;

  // Steps done at the newest complete copies; 0: there are none. Each rank is the buddy of the one
  // before.
  int64_t copies_of() const { return complete_step_; }

  // Sets the plan for all ranks. Before: version 1 with spec.strategy().
  void SetPlan(const v1::TrainingPlan& plan);
  // Makes this job's plan for a strategy.
  v1::TrainingPlan MakePlan(int64_t version, const v1::Strategy& strategy) const;
  // Requests a profile from these ranks.
  void SetProfile(const std::vector<int>& ranks, const v1::ProfileRequest& request);
  // Orders a save of all ranks, or of some.
  void SetSaveOrder(const v1::SaveOrder& order);
  void SetSaveOrder(const std::vector<int>& ranks, const v1::SaveOrder& order);
  // Orders a save of all ranks into this directory.
  void SetSaveOrder(int64_t number, const std::string& directory);
  // Steps to commit besides those of Options::commit_saves.
  void SetCommitSteps(const std::vector<int64_t>& steps);

  // Serves the trainers until `done` (called after each event) returns true or all have ended.
  // False when neither happens within Options::patience.
  bool Serve(const std::function<bool()>& done = [] { return false; });

  // Closes the socket and all connections, as if the daemon were gone; ComeBack reopens them.
  void GoAway();
  void ComeBack();

  void Signal(int rank, int signal);
  // Ends a rank as a daemon does on request: with a confirmation and SIGTERM.
  void Stop(int rank);
  // Sends only the confirmation.
  void SayStopping(int rank);

  bool ended(int rank) const { return trainers_[static_cast<size_t>(rank)].ended; }
  // Requires: ended(rank). exit_code: -1 unless it exited. The signal: 0 unless it was killed.
  int exit_code(int rank) const;
  int exit_signal(int rank) const;
  // The latest status received.
  const v1::TrainerStatus& status(int rank) const {
    return trainers_[static_cast<size_t>(rank)].status;
  }
  // Number of messages received from this rank.
  int statuses(int rank) const { return trainers_[static_cast<size_t>(rank)].statuses; }
  // The last words in its directory; an empty message when there are none.
  bool HasLastWords(int rank) const;
  v1::TrainerStatus LastWords(int rank) const;
  // All segments, concatenated.
  std::string Log(int rank) const;
  std::string TrainerDirectory(int rank) const;
  std::string RingPath(int rank) const;

 private:
  struct Trainer {
    int64_t generation = 1;  // Part of its name, like the next.
    int rank = 0;
    pid_t pid = -1;
    int pidfd = -1;
    bool ended = false;
    int wait_status = 0;
    int statuses = 0;
    v1::TrainerStatus status;
    std::string sent;  // The last command sent, serialized.
    std::optional<v1::ProfileRequest> profile;
    std::optional<v1::SaveOrder> save;
    bool stopping = false;
  };
  struct Connection;

  void Start(int number);
  v1::Membership MembershipOf(int number) const;
  v1::MemberCopies CopiesOf(int rank) const;
  void TakeCopies();
  void Accept();
  // False when the trainer has closed the connection.
  bool Receive(Connection& connection);
  v1::TrainerCommand Command(int number) const;
  bool IsDurable(int64_t step, int64_t order) const;
  v1::CheckpointPlan Checkpoints(int rank) const;
  void SendCommands();
  void Reap(Trainer& trainer);

  const Options options_;
  const std::string socket_;
  v1::JobSpec spec_;
  v1::TrainingPlan plan_;
  int64_t first_generation_ = 1;
  int64_t generation_ = 1;
  bool sends_members_ = false;
  Members members_;
  int64_t complete_step_ = 0;  // As in MemberCopies, like the next two.
  int64_t complete_generation_ = 0;
  int64_t settled_step_ = 0;
  std::string restore_from_;
  std::vector<int64_t> commit_steps_;
  std::map<int64_t, std::string> directories_;  // By the order's number.
  std::vector<Trainer> trainers_;
  int listen_fd_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_FAKE_DAEMON_H_
