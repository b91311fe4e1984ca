// Sees everything, and says when an invariant does not hold:
//
//   - generations and plan epochs never go back, and a generation never means two memberships;
//   - what must survive the controller is stored with the event that changes it, and read back;
//   - no place is given to two ranks, and no trainer is started twice;
//   - ranks train on from the newest complete checkpoint, which is there;
//   - a manifest is asked for only when all shards are durable;
//   - jobs end as was asked for, or for a reason that allows it; what was acknowledged is not lost;
//   - no generation makes a step after a newer one has;
//   - in the end, when nothing has been broken for a while: every job has ended, every node is
//     READY, and no trainer lives.
//
// Thread-compatible.
#ifndef TESTS_SIM_OBSERVER_H_
#define TESTS_SIM_OBSERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "controller/core/cluster.h"
#include "tests/sim/messages.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class Observer {
 public:
  using StoredJobs = std::map<JobId, std::shared_ptr<const Job>>;

  explicit Observer(World& world) : world_(world) {}

  // The controller has taken an event in, and will store these.
  void OnStep(const Cluster& cluster, const StoredJobs& puts);
  // The controller has started with what was stored.
  void OnRestored(const Cluster& cluster, const StoredJobs& stored);
  void OnPlanSent(const NodeName& node, const NodeOrders& plan);

  void OnStart(const SimNode& node, const TrainerId& id);
  void OnDiskLost(const NodeName& node);

  void OnBadRestore(const Trainer& trainer, bool damaged);
  // All ranks of its generation have exchanged the gradients of a step.
  void OnExchange(const Trainer& first);
  void OnFinished(const Trainer& trainer);
  void OnManifest(const Trainer& trainer, int64_t step, bool complete);

  // Durable answers to people.
  void OnSubmitted(const JobId& job) { submitted_.insert(job); }
  void OnCancelled(const JobId& job) { cancelled_.insert(job); }
  void OnResumed(const JobId& job) { cancelled_.erase(job); }

  // Whether nothing is left to happen.
  bool IsOver(const Cluster& cluster) const;
  void CheckEnd();

 private:
  struct Seen {
    int64_t generation = 0;
    int64_t epoch = 0;
    int64_t order = 0;
    JobState state = JobState::kQueued;
    int64_t to_stop = 0;  // Newest generation that was to be stopped when it was saved.
    uint64_t stored = 0;  // Digest of what was stored last.
  };
  struct Member {
    NodeName node;
    int place = 0;
    std::string restore_from;
  };

  void CheckJob(const Job& job);
  void CheckPlaces(const Cluster& cluster);
  void CheckStart(const Job& job);
  void CheckEndOf(const Job& job);

  World& world_;
  std::map<JobId, Seen> seen_;
  std::map<TrainerId, Member> members_;
  std::map<NodeName, std::set<TrainerId>> started_;
  std::map<JobId, int64_t> stepping_;  // Newest generation that has made a step.
  std::map<std::pair<JobId, int64_t>, int> finished_;
  std::set<JobId> submitted_, cancelled_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_OBSERVER_H_
