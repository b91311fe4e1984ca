// Sees everything, and says when an invariant does not hold:
//
//   - generations and plan versions never go back, and a generation never means two memberships;
//   - state that must survive the controller is stored with the event that changes it, and read
//     back;
//   - no slot is given to two trainers, and no trainer is started twice;
//   - all members of a generation see the same ranks;
//   - ranks train on from the newest complete checkpoint, which exists;
//   - a manifest is requested only when all shards are durable;
//   - jobs end as requested, or for a valid reason; acknowledged requests are not lost;
//   - no generation makes a step after a newer one has, and no rank has two trainers;
//   - no step that all ranks have done is lost or repeated while the job recovers by itself, other
//     than by going back to copies of the states (copy_judge.h);
//   - what ends a generation without a loss counts once as a failure, whoever is the controller;
//   - a trainer that hands its state over is not ended before its successor has trained with it;
//   - of sharded models, all of replica_judge.h;
//   - a drained node trains nothing; the automation obeys its brake, its pause, and people;
//   - in the end, when nothing has been broken for a while, every job has ended, every node
//     answers, drained nodes are DRAINED, and no trainer lives.
//
// Thread-compatible.
#ifndef TESTS_SIM_OBSERVER_H_
#define TESTS_SIM_OBSERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/cluster/cluster.h"
#include "tests/sim/messages.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class Observer {
 public:
  explicit Observer(World& world) : world_(world) {}

  // The controller has handled an event, and will store these records.
  void OnStep(const Cluster& cluster, const Stored& puts,
              const std::optional<Automation>& automation);
  // The controller has started with the stored state.
  void OnRestored(const Cluster& cluster, const Stored& stored);
  // The controller has made this plan from its present state.
  void OnPlanned(const Cluster& cluster, const NodeOrders& plan);
  void OnPlanSent(const NodeName& node, const NodeOrders& plan);

  void OnStart(const SimNode& node, const TrainerId& id);
  void OnDiskLost(const NodeName& node);

  void OnBadRestore(const Trainer& trainer, bool damaged);
  // All ranks of the generation have met and have the state; they continue after `position` steps.
  void OnRendezvousDone(int64_t generation, const std::vector<const Trainer*>& trainers,
                        int64_t position);
  // Before that: they have all gone back to the copies of their states after `position` steps.
  void OnWentBack(const JobId& job, int64_t position) { work_[job].done = position; }
  // All ranks of the generation have exchanged the gradients of a step.
  void OnExchange(int64_t generation, const std::vector<const Trainer*>& trainers);
  void OnFinished(const Trainer& trainer);

  // Requests that were answered durably.
  void OnSubmitted(const JobId& job) { submitted_.insert(job); }
  void OnCancelled(const JobId& job) { cancelled_.insert(job); }
  void OnResumed(const JobId& job) { cancelled_.erase(job); }

  // Whether everything has ended.
  bool IsOver(const Cluster& cluster) const;
  void CheckEnd();

 private:
  struct Seen {
    int64_t generation = 0;
    int64_t version = 0;
    int64_t order = 0;
    JobState state = JobState::kQueued;
    int64_t to_stop = 0;  // Newest generation to be stopped after a save.
    // Newest generation whose stop did not wait for all nodes (kStopConfirmation).
    int64_t unconfirmed = 0;
    bool hands_over = false;  // Its generation is not known to train, and some are handed states.
    int64_t unheard = 0;      // Newest such generation that was called off.
    uint64_t stored = 0;      // Digest of the last stored state.
    int64_t troubles = 0;     // Failures of its budget that are of no rank.
    int64_t troubled = 0;     // Newest generation that such a failure ended.
  };
  // What was sent about a trainer, and about its role in a generation.
  struct Member {
    NodeName node;
    int slot = 0;
  };
  struct Role {
    int rank = -1;
    int world_size = 0;
  };
  // The progress of a job.
  struct Work {
    int64_t generation = 0;  // Newest one that has made a step.
    int64_t started = 0;     // Newest generation that began with a new start.
    int64_t done = 0;        // Steps that all ranks have done since `started`.
  };

  bool IsLeftOver(const std::vector<const Trainer*>& trainers) const;
  // Whether trainers of the job live on nodes that are not lost.
  bool HasLiving(const JobId& id) const;
  bool Restarted(const JobId& id, int64_t generation) const;
  void CheckJob(const Job& job);
  void CheckNodes(const Cluster& cluster, const Stored& puts);
  void CheckAutomation(const Cluster& cluster);
  void CheckSlots(const Cluster& cluster);
  void CheckStart(const Job& job);
  void CheckEndOf(const Job& job);

  World& world_;
  std::map<JobId, Seen> seen_;
  std::map<NodeName, uint64_t> stored_nodes_;  // Digests.
  uint64_t stored_automation_ = 0;
  std::set<NodeName> automatic_;  // Nodes that the automation drains.
  std::map<TrainerId, Member> members_;
  std::map<std::pair<TrainerId, int64_t>, Role> roles_;  // By trainer and generation.
  std::map<NodeName, std::set<TrainerId>> started_;
  std::map<JobId, std::set<int64_t>> starts_;  // Generations that began with a new start.
  std::map<JobId, Work> work_;
  std::set<TrainerId> finished_;
  std::set<JobId> submitted_, cancelled_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_OBSERVER_H_
