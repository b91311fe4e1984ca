// Plays the worker daemon, and what the controller would tell it, for real trainer processes of one
// job, on the loopback network.
//
// It starts one process per rank, answers their statuses with commands, names rank 0's store
// as soon as that is known, sends them memberships, plans, profile requests and save orders, and
// collects what becomes of the processes. All ranks count as one node. Trainers are numbered in the
// order of their start: those that Launch starts by their ranks, then the spares.
//
// Thread-compatible. What goes wrong here (as opposed to in a trainer) ends the program.
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
    std::string trainer;                         // Path of the program.
    std::string server;                          // Of trainer_server; empty: without one.
    std::string directory;                       // Gets the trainer directories; exists.
    std::vector<std::string> extra_args;         // For each trainer.
    int threads = 1;                             // Of each trainer.
    absl::Duration patience = absl::Minutes(2);  // Of Serve.
    // Lists a save for rank 0 to commit when all ranks tell that their shards are durable.
    bool commit_saves = true;
  };

  explicit FakeDaemon(Options options);
  // Kills what still runs.
  ~FakeDaemon();

  // Starts spec.ranks() trainers of the one job that it knows, and spec.recovery().spares() more.
  // Requires: those of an earlier generation have ended. `restore_from`: directory of a checkpoint.
  void Launch(const v1::JobSpec& spec, int64_t generation = 1,
              const std::string& restore_from = "");
  static std::string JobId();

  // Starts another trainer, for this rank of this generation. Returns its number.
  int Add(int64_t generation, int rank);

  // The generation after the present one, with these trainers as its ranks. All get its plan. Until
  // the first call no membership is sent, unless the job recovers.
  struct Members {
    std::vector<int> trainers;  // By rank.
    bool planned = false;
    int batch_per_rank = 0;
    int accumulation_steps = 0;
    std::optional<v1::Strategy> strategy = {};  // Unset: the spec's.
  };
  void SetMembers(const Members& members);
  int64_t generation() const { return generation_; }
  // All members train in the newest generation.
  bool Met() const;

  // What the ranks shall agree on from now on. Until then: epoch 1, spec.strategy().
  void SetPlan(const v1::TrainingPlan& plan);
  // The plan that a ladder would be for this job.
  v1::TrainingPlan MakePlan(int64_t epoch, const v1::Strategy& strategy) const;
  // Asks these ranks for a profile.
  void SetProfile(const std::vector<int>& ranks, const v1::ProfileRequest& request);
  // Asks for a save: all ranks, or some of them.
  void SetSaveOrder(const v1::SaveOrder& order);
  void SetSaveOrder(const std::vector<int>& ranks, const v1::SaveOrder& order);
  // Of all ranks, into this directory.
  void SetSaveOrder(int64_t number, const std::string& directory);
  // Besides those that Options::commit_saves lists.
  void SetCommitSteps(const std::vector<int64_t>& steps);

  // Serves the trainers until `done` (asked after each event) or the end of all of them.
  // False when neither came within Options::patience.
  bool Serve(const std::function<bool()>& done = [] { return false; });

  // Closes the socket and all connections, as if the daemon were gone; and comes back.
  void GoAway();
  void ComeBack();

  void Signal(int rank, int signal);
  // Ends a rank as a daemon does that was told to: by the word that it is meant, and SIGTERM.
  void Stop(int rank);
  // The word alone.
  void SayStopping(int rank);

  bool ended(int rank) const { return trainers_[static_cast<size_t>(rank)].ended; }
  // Requires: ended(rank). -1 unless it exited, 0 unless it was killed, by itself or others.
  int exit_code(int rank) const;
  int exit_signal(int rank) const;
  // The latest one received.
  const v1::TrainerStatus& status(int rank) const {
    return trainers_[static_cast<size_t>(rank)].status;
  }
  // Messages received from this rank.
  int statuses(int rank) const { return trainers_[static_cast<size_t>(rank)].statuses; }
  // What it left in its directory; an empty message when it left nothing.
  bool HasLastWords(int rank) const;
  v1::TrainerStatus LastWords(int rank) const;
  // All segments, one after the other.
  std::string Log(int rank) const;
  std::string TrainerDirectory(int rank) const;
  std::string RingPath(int rank) const;

 private:
  struct Trainer {
    int64_t generation = 1;  // These two name it.
    int rank = 0;
    pid_t pid = -1;
    int pidfd = -1;
    bool ended = false;
    int wait_status = 0;
    int statuses = 0;
    v1::TrainerStatus status;
    std::string sent;  // The last command, serialized.
    std::optional<v1::ProfileRequest> profile;
    std::optional<v1::SaveOrder> save;
    bool stopping = false;
  };
  struct Connection;

  void Start(int number);
  v1::Membership MembershipOf(int number) const;
  void Accept();
  // False when the trainer closed it.
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
  std::string restore_from_;
  std::vector<int64_t> commit_steps_;
  std::map<int64_t, std::string> directories_;  // By the order's number.
  std::vector<Trainer> trainers_;
  int listen_fd_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_FAKE_DAEMON_H_
