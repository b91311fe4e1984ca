// A trainer's process: starts, has its rendezvous, trains, leaves for another generation, saves,
// ends. The real MembershipState decides about its memberships; the rest is a model that behaves
// like the trainer towards its daemon and its peers, and computes nothing.
//
// Thread-compatible.
#ifndef TESTS_SIM_TRAINER_H_
#define TESTS_SIM_TRAINER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/job/trainer_state.h"
#include "controller/core/stragglers/job/step_times.h"
#include "tests/sim/copies.h"
#include "tests/sim/judge.h"
#include "tests/sim/messages.h"
#include "tests/sim/model_part.h"
#include "tests/sim/world.h"
#include "worker/trainer/core/membership.h"

namespace paceline::sim {

// By number of a paceline.v1.Phase.
inline constexpr int kIdle = 0;
inline constexpr int kBackward = 3;
inline constexpr int kCommunication = 4;

class Trainer;
using TrainerPtr = std::shared_ptr<Trainer>;

class Trainer : public std::enable_shared_from_this<Trainer> {
 public:
  using Action = MembershipState::Action;

  static TrainerPtr Start(World& world, SimNode& node, const TrainerId& id, TrainerOrder order);

  Trainer(World& world, SimNode& node, const TrainerId& id, TrainerOrder order);

  const TrainerId& id() const { return id_; }
  SimNode& node() const { return node_; }
  const TrainerOrder& order() const { return order_; }
  const TrainerReport& status() const { return status_; }
  const JobFacts& facts() const { return facts_; }
  bool is_alive() const { return alive_; }
  int64_t step() const { return status_.progress.step; }
  int64_t trained_generation() const { return membership_.trained_generation(); }
  bool has_trained() const { return trained_generation() > 0; }
  // Whether it has the state of the training: it started as a rank, or has received the state.
  bool has_state() const {
    return !part_.lost &&
           (has_trained() || began_as_rank_ || part_.copied || taken_.generation > 0);
  }
  // What was handed over to it, and it has not trained with yet: generation and rank of the one
  // whose state it has. Without: generation 0.
  const RankPosition& taken() const { return taken_; }
  // Whether it has the gradients of the next step; they are not averaged yet.
  bool has_computed() const { return computed_; }
  const ModelPart& part() const { return part_; }
  bool is_ending() const { return ending_; }
  // "job-1 g2 r0".
  std::string name() const;

  // From its daemon.
  void Command(const TrainerOrder& order);
  void Terminate();
  void Kill();
  void OnAlone();  // The daemon is gone.
  struct Progress Progress() const;
  bool is_suspended() const { return frozen_; }
  int64_t steps_made() const { return steps_made_; }
  // The steps measured since the last call.
  std::vector<StepTimes> TakeSteps() { return std::exchange(steps_, {}); }

  // From outside.
  void CrashBy(int signal);
  void Throw();
  void AskToEnd();  // SIGTERM by somebody else.
  void Freeze();
  void Thaw();
  void Hang() { hangs_ = true; }  // Hangs for ever in its next step.
  // Dies with its host: its end is not recorded.
  void Vanish();

  // Called by Training, for the generation that the trainer meets or trains in.
  // `part`: what it has then, if its model is sharded.
  void RendezvousDone(int64_t step, const TakenPlan& plan, const ModelPart& part = {});
  // The step's exchange is done. `save_order`: save order to answer after it; 0: none.
  void CompleteStep(const TakenPlan& plan, int64_t save_order, bool leaves);
  // What follows, if its model is sharded.
  // It meets the others at this position: a part of another one is lost.
  void TakePosition(int position);
  // It has the result of the step, or of the mean, of that number, and has not applied it.
  void Prepare(bool mean, uint64_t result);
  // Applies what it is prepared with.
  void ApplyStep();
  void ApplyMean();
  // Goes on after a rendezvous or a step: with the next step, or the mean that is due before it.
  void GoOn();
  // Ends the step that it has applied. Arguments as in CompleteStep.
  void EndStep(const TakenPlan& plan, int64_t save_order, bool leaves);
  // Forgets a step that it is prepared with.
  void UndoStep();
  // It has got the whole state of a rank that has left, in whose place it is then. `at`: generation
  // and rank of that one.
  void TakeOver(const Trainer& leaver, const RankPosition& at);
  // It has done its part of a rendezvous, and keeps its state: it is there.
  void CarryOut(const RankPosition& after) { part_.at = after; }
  // It has no state until all members of a generation have theirs. `decided`: as in RankPosition.
  void GiveUpState(int64_t decided);
  // The members cannot go on: the state is lost.
  void FailRendezvous(const std::string& why);
  // Its copies and those of its ward, and what to call when their reports have changed.
  TrainerCopies& copies() { return copies_; }
  void TellCopies() { Tell(); }
  // It goes back to this state, from a copy.
  void TakeCopy(int position, uint64_t state, const RankPosition& at);

  // It cannot prepare the plan.
  void FailPlan(int64_t version);
  void OnCollectiveError(const std::string& why);
  void OnConnected(int64_t generation, bool connected);
  bool agrees() const { return membership_.Next(Clock()).action == Action::kAgree; }
  int64_t present() const { return membership_.present(); }
  // Runs `action` after `delay` as part of the process, if it still lives.
  void Later(Micros delay, Timeline::Action action);

 private:
  absl::Time Clock() const;
  void Load();
  void Act();
  void CheckCommits();
  void SetPhase(int phase);
  void Compute();
  void DoStep();
  // Whether parameters are averaged after so many steps, other than the last.
  bool SharesMeanAfter(int64_t step) const;
  bool AwaitsMean() const;
  // If its model is sharded: the generation that it trains in is over.
  void NoteExchange();
  void MeasureStep();
  void Save(int64_t order);
  void EndSave(const CheckpointKey& key, int rank, bool fails);
  void CommitManifest(const CheckpointKey& key, int ranks);
  void FinishWhenSaved();
  void Tell();
  SaveStatus* FindSave(const CheckpointKey& key);
  std::string DirectoryOf(const CheckpointKey& key) const;
  void End(Remains remains, bool reset);
  void Exit(FailureKind kind, const std::string& message);

  World& world_;
  SimNode& node_;
  const TrainerId id_;
  const JobFacts& facts_;
  TrainerOrder order_;
  TrainerReport status_;
  MembershipState membership_;
  int64_t connecting_ = 0;  // Generation.
  Micros phase_since_ = 0;
  Micros wake_ = kNever;  // When MembershipState gives up.
  bool alive_ = true;
  bool frozen_ = false;
  bool hangs_ = false;
  const bool began_as_rank_;
  bool computed_ = false;
  bool computing_ = false;
  bool is_over_ = false;  // Its generation was replaced.
  bool finishing_ = false;
  bool ending_ = false;
  int64_t steps_made_ = 0;
  Micros begun_ = 0;    // Begin of the step.
  Micros arrived_ = 0;  // Begin of its exchange.
  Micros stall_ = 0;    // Within the step, or besides it if waits_less_.
  bool saved_ = false;  // After the step before.
  bool waits_less_ = false;
  ModelPart part_;
  RankPosition taken_;
  TrainerCopies copies_;
  std::vector<StepTimes> steps_;
  int64_t run_ = 0;  // Number of the rendezvous or training; older computations are void.
  std::vector<CheckpointKey> committing_;
  std::vector<Timeline::Action> held_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_TRAINER_H_
