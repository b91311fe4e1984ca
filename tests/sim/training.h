// What the trainers of a generation do together: they connect, rendezvous, get the state, and
// exchange gradients step by step. A member that is gone, frozen or cannot be reached makes the
// others fail, at once or when their timeout has passed. Sharded models: sharded_training.cc.
//
// Thread-compatible.
#ifndef TESTS_SIM_TRAINING_H_
#define TESTS_SIM_TRAINING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/core/lanes.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"
#include "worker/trainer/core/copy_keeper.h"
#include "worker/trainer/core/rendezvous.h"

namespace paceline::sim {

struct HeldPart;

class Training {
 public:
  explicit Training(World& world)
      : world_(world), random_(world.random.Fork()), deaths_(world.settings.transfer_seed) {}

  // Connects to the other members of the planned generation, beside its training.
  void Connect(const TrainerPtr& trainer);
  // Waits in its newest generation for the others, and for the state.
  void RunRendezvous(const TrainerPtr& trainer);
  // Connects, beside its training, to the one that its state goes to; hands it over, having left.
  void ConnectHandOver(const TrainerPtr& leaver);
  void HandOver(const TrainerPtr& leaver);
  // Waits in the exchange of its next step for the others.
  void Arrive(const TrainerPtr& trainer);
  // Waits in the mean of parameters after its latest step for the others.
  void AwaitMean(const TrainerPtr& trainer);
  // Copies the states of a job that keeps copies (copies.cc). The trainer's training begins; it is
  // between two steps, which makes a copy if one is due.
  void BeginCopies(Trainer& trainer);
  void CopyState(const TrainerPtr& trainer);
  // The rank of a trainer that has met in this generation; else -1.
  int RankIn(const Trainer& trainer, int64_t generation) const;
  // The trainer has aborted its collectives: those who wait for it learn of that.
  void Sever(const Trainer& trainer);
  // The process is gone. `reset`: its host resets the connections, so peers learn of it.
  void OnEnd(const Trainer& trainer, bool reset);
  // A wire between two nodes works again.
  void OnMended();

 private:
  static constexpr Micros kTransfer = 400 * kMilli;  // Longest time to send the whole state.

  // What a rank of a sharded model waits in while it trains.
  enum class Collective { kGradients, kWord, kMean, kMeanWord };
  static bool IsOfMean(Collective collective) {
    return collective == Collective::kMean || collective == Collective::kMeanWord;
  }
  struct Member {
    TrainerPtr trainer;
    bool out = false;    // Has left, or failed.
    bool waits = false;  // In a collective, or for the rendezvous.
    int64_t wait = 0;    // Number of the latest one.
    Collective collective = Collective::kGradients;
    CopyOrders copies;  // When it met the others.
  };
  // The two sides of a hand-over; null: not there yet.
  struct Pair {
    TrainerPtr leaver;
    TrainerPtr newcomer;
    bool connected = false;
    bool over = false;  // The newcomer has the state, or has failed.
  };
  struct Group {
    JobId job;
    int64_t generation = 0;
    Lanes lanes;
    std::vector<Member> members;
    enum class Stage {
      kRendezvous,
      kGoingBack,  // To copies.
      kTransfer,
      kTraining
    } stage = Stage::kRendezvous;
    bool connected = false;
    int64_t position = 0;         // Steps that all had done at the rendezvous.
    int64_t furthest = 0;         // The most that one of them had done.
    bool went_back = false;       // To copies.
    RendezvousDecision decision;  // Of a sharded model.
    TakenPlan plan;
    int64_t answered_order = 0;
    std::map<int, Pair> pairs;  // By rank.
  };
  // What all ranks agree on at the end of a step.
  struct Agreed {
    TakenPlan plan;
    int64_t save_order = 0;  // 0: none.
    bool leaves = true;
  };
  using Key = std::pair<JobId, int64_t>;

  Group& GroupOf(const TrainerPtr& trainer);
  Group& Enter(const TrainerPtr& trainer, size_t* member);
  // Whether the trainer has to wait for the state that it takes over.
  bool AwaitHandOver(Group& group, size_t m);
  void TryPairs(Group& group);
  void FailPair(Group& group, int rank, Micros delay, const std::string& why);
  void Wait(Group& group, size_t m);
  void TryConnect(Group& group);
  void TryExchange(Group& group);
  static std::vector<const Trainer*> TrainersOf(const Group& group);
  void Exchange(Group& group);
  Agreed Agree(Group& group);
  // The members leave together: either all take the mean of their parameters first, or none does;
  // all, if one leaves whose parameters differ from the others' and are handed to nobody.
  void CheckMeanBeforeLeaving(const Group& group);
  // Of all members' plans, the one of the latest or the earliest version.
  static TakenPlan PlanOf(const Group& group, bool latest);
  // Whether nobody can prepare it.
  bool PlanFails(int64_t version) const;
  void Decide(Group& group);
  static uint64_t LayoutOf(int rank, size_t ranks);
  RankPosition PositionOf(const Trainer& trainer) const;
  bool IsConnected(const Group& group) const;
  // The member's wait fails after `delay`, unless it has ended by then.
  void Fail(Group& group, size_t m, Micros delay, std::string why);
  Group* Find(const Trainer& trainer, size_t* member);

  // Of sharded models.
  void WaitIn(Group& group, size_t m, Collective collective);
  // The ranks that share the member's steps or, if `mean`, means of parameters.
  static RankRange SharersOf(const Group& group, size_t m, bool mean);
  void TryShare(Group& group);
  void Share(Group& group, const RankRange& sharers);
  // Whether it is still in this generation.
  static bool TakesPart(const Group& group, size_t m);
  void Prepare(Group& group, size_t m, bool mean, uint64_t result);
  // `agreed` is not used after a step that only its replica has made.
  void Apply(Group& group, size_t m, bool mean, const Agreed& agreed);
  void DecideSharded(Group& group);
  // Perhaps a member dies while states are on their way.
  void BreakTransfer(const Group& group);
  // The member does its part of what was decided, other than to get or to send a state.
  void CarryOut(Group& group, size_t m);
  // Returns whether it gets a state.
  bool ApplyOwn(const Group& group, size_t m);
  // Where it is when it has carried out the decision.
  static RankPosition After(const Group& group, size_t m);
  std::vector<HeldPart> MakeTransfers(const Group& group);
  // What it trains on with. `held`: after the transfers.
  static ModelPart PartOf(const Group& group, size_t m, const HeldPart& held);
  void Meet(Group& group);

  // Of sharded models with copies.
  // Lets the members take their orders. Returns whether they go back to copies.
  bool EnterCopies(Group& group);
  void GoBack(Group& group);
  // `fetched`: the place for a copy that it has not.
  void TakeCopy(Group& group, size_t m, uint64_t state, std::optional<size_t> fetched);
  void SendCopy(Group& group, size_t m, size_t place, const CopyLabel& label);
  void KeepCopy(Group& group, size_t m, size_t place, const CopyLabel& label, size_t ward_place);

  World& world_;
  Random random_;
  Random deaths_;  // Of members, in transfers.
  std::map<Key, Group> groups_;
  uint64_t results_ = 0;  // Number of the latest result of a step or a mean of a sharded model.
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_TRAINING_H_
