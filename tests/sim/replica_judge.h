// Sees everything of jobs whose models are sharded, and says when an invariant does not hold:
//
//   - a generation has all ranks of a replica or none; members' ranks and seats have the same
//     positions;
//   - with placement.replica: require, each replica is on one node, or in one island or rack, and
//     never in a wider domain than at the start;
//   - a replica is given up only if what is left over does not make one;
//   - a rank moves off a node that the job need not leave only if its replica is less stretched
//   then;
//   - ranks share a step, or a mean of parameters, only if they are at the same one, and the parts
//     of each replica belong together;
//   - a rank applies only what all ranks that share it are prepared for;
//   - a rank gets its state from one of its own position; after the rendezvous the parts of each
//     replica belong together, and with ddp all ranks are at one step; if replicas differ, one that
//     gets all its parts gets them from one other;
//   - members of a generation find no state among them only if the controller could not know that;
//   - a checkpoint has the part of each rank once, and those of a replica belong together.
//
// It also counts the histories in which such jobs went through what is rare.
//
// Thread-compatible.
#ifndef TESTS_SIM_REPLICA_JUDGE_H_
#define TESTS_SIM_REPLICA_JUDGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/core/lanes.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/schedule/placement_policy.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"
#include "worker/trainer/core/rendezvous.h"

namespace paceline::sim {

// The state that a rank has while the transfers of a rendezvous are made.
struct HeldPart {
  bool any = false;
  int source = -1;  // The rank that brought it to the rendezvous.
  int position = -1;
  int64_t step = -1;
  uint64_t state = 0;  // ModelPart::state
};

class ReplicaJudge {
 public:
  explicit ReplicaJudge(World& world) : world_(world) {}

  // The controller has started with the stored state.
  void OnRestored(const Cluster& cluster);
  // The controller has handled an event.
  void OnStep(const Cluster& cluster);

  // Consecutive ranks of whole replicas share a step or, if `mean`, a mean of parameters. Each will
  // get its result.
  void OnShared(const std::vector<const Trainer*>& sharers, const Lanes& lanes, bool mean);
  // All of them have said that they are prepared.
  void OnWord(const std::vector<const Trainer*>& sharers, bool mean);
  // The rank is about to apply what it is prepared with.
  void OnApplying(const Trainer& trainer, bool mean);

  // The members of the generation cannot go on.
  void OnStateLost(const JobId& job, int64_t generation, const std::vector<const Trainer*>& members,
                   const std::string& why);
  // The rank is about to get its state, for this position.
  void OnTransfer(const Trainer& to, int position, const HeldPart& from);
  // All ranks of a generation have their states; they go on from `positions`.
  void OnMet(const std::vector<const Trainer*>& trainers, const Lanes& lanes,
             const std::vector<HeldPart>& held, const std::vector<RankPosition>& positions);

  // The rank begins to write its part of a checkpoint.
  void OnSave(const Trainer& trainer, const std::string& directory, int rank);
  // The checkpoint is complete.
  void OnManifest(const std::string& directory, int ranks, const Lanes& lanes);

  // Counts the history, once, under this.
  void Note(const std::string& what);

 private:
  struct Seen {
    int64_t generation = 0;
    std::map<int, TrainerId> holders;  // By seat.
    std::map<int, NodeName> nodes;     // The same.
    std::map<int, Span> spans;         // By replica.
  };
  struct SavedPart {
    int position = -1;
    uint64_t state = 0;
  };
  // What the controller knew when it began a generation.
  struct Known {
    int64_t generation = 0;
    std::map<TrainerId, int64_t> trained;  // By member: the newest generation it had trained in.
  };

  static Seen See(const Job& job);
  static Known KnownOf(const Job& job);
  void CheckWhole(const Job& job);
  void CheckDomains(const Job& job);
  void CheckChange(const Job& job, const Seen& before);
  void CheckMoves(const Job& job, const Seen& before);

  World& world_;
  std::map<JobId, Seen> seen_;
  std::map<JobId, Known> known_;
  std::map<JobId, Span> widest_;  // The widest domain of a replica at the newest start.
  std::set<uint64_t> words_;      // Results for which all were prepared.
  std::map<std::string, std::map<int, SavedPart>> saved_;  // By directory and rank.
  std::set<std::string> noted_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_REPLICA_JUDGE_H_
