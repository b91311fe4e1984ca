// What the trainers of a generation do together: they connect, rendezvous, get the state, and
// exchange gradients step by step. A member that is gone, frozen or cannot be reached makes the
// others fail, at once or when their timeout has passed.
//
// Thread-compatible.
#ifndef TESTS_SIM_TRAINING_H_
#define TESTS_SIM_TRAINING_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/trainer.h"
#include "tests/sim/world.h"
#include "worker/trainer/core/rendezvous.h"

namespace paceline::sim {

class Training {
 public:
  explicit Training(World& world) : world_(world), random_(world.random.Fork()) {}

  // Connects to the other members of the planned generation, beside its training.
  void Connect(const TrainerPtr& trainer);
  // Waits in its newest generation for the others, and for the state.
  void RunRendezvous(const TrainerPtr& trainer);
  // Waits in the exchange of its next step for the others.
  void Arrive(const TrainerPtr& trainer);
  // The rank of a trainer that has met in this generation; else -1.
  int RankIn(const Trainer& trainer, int64_t generation) const;
  // The trainer has aborted its collectives: those who wait for it learn of that.
  void Sever(const Trainer& trainer);
  // The process is gone. `reset`: its host resets the connections, so peers learn of it.
  void OnEnd(const Trainer& trainer, bool reset);
  // A wire between two nodes works again.
  void OnMended();

 private:
  struct Member {
    TrainerPtr trainer;
    bool out = false;    // Has left, or failed.
    bool waits = false;  // In a collective, or for the rendezvous.
    int64_t wait = 0;    // Number of the latest one.
  };
  struct Group {
    JobId job;
    int64_t generation = 0;
    std::vector<Member> members;
    enum class Stage { kRendezvous, kTransfer, kTraining } stage = Stage::kRendezvous;
    bool connected = false;
    int64_t position = 0;
    TakenPlan plan;
    int64_t answered_order = 0;
  };
  using Key = std::pair<JobId, int64_t>;

  Group& Enter(const TrainerPtr& trainer, size_t* member);
  void Wait(Group& group, size_t m);
  void TryConnect(Group& group);
  void TryExchange(Group& group);
  static std::vector<const Trainer*> TrainersOf(const Group& group);
  void Exchange(Group& group);
  // Of all members' plans, the one of the latest or the earliest version.
  static TakenPlan PlanOf(const Group& group, bool latest);
  // Whether nobody can prepare it.
  bool PlanFails(int64_t version) const;
  void Decide(Group& group);
  RankPosition PositionOf(const Trainer& trainer) const;
  bool IsConnected(const Group& group) const;
  // The member's wait fails after `delay`, unless it has ended by then.
  void Fail(Group& group, size_t m, Micros delay, std::string why);
  Group* Find(const Trainer& trainer, size_t* member);

  World& world_;
  Random random_;
  std::map<Key, Group> groups_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_TRAINING_H_
