// A trainer's process: starts, meets its peers, trains, saves, ends. A model: it behaves as the
// trainer towards its daemon and its peers, and computes nothing.
//
// Thread-compatible.
#ifndef TESTS_SIM_TRAINER_H_
#define TESTS_SIM_TRAINER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/trainer_state.h"
#include "tests/sim/judge.h"
#include "tests/sim/messages.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class Trainer;
using TrainerPtr = std::shared_ptr<Trainer>;

class Trainer : public std::enable_shared_from_this<Trainer> {
 public:
  static TrainerPtr Start(World& world, SimNode& node, const TrainerId& id, TrainerOrder order);

  Trainer(World& world, SimNode& node, const TrainerId& id, TrainerOrder order);

  const TrainerId& id() const { return id_; }
  SimNode& node() const { return node_; }
  const TrainerOrder& order() const { return order_; }
  const TrainerReport& status() const { return status_; }
  const JobFacts& facts() const { return facts_; }
  bool is_alive() const { return alive_; }
  bool is_training() const { return training_; }
  int64_t step() const { return status_.progress.step; }

  // From its daemon.
  void Command(const TrainerOrder& order);
  void Terminate();
  void Kill();
  void OnAlone();  // The daemon is gone.

  // From outside.
  void CrashBy(int signal);
  void AskToEnd();  // SIGTERM by somebody else.
  void Freeze() { frozen_ = true; }
  void Thaw();
  bool is_frozen() const;
  // With its host: nothing of its end is on record.
  void Vanish();

  // From the training.
  void Met(int64_t epoch);
  // The step's exchange is done; `save_order` 0: no order is to be answered after it.
  void CompleteStep(int64_t epoch, int64_t save_order);
  void OnCollectiveError(const std::string& why);
  // Runs later as part of the process, if it still lives.
  void Later(Micros delay, Timeline::Action action);

 private:
  void Load();
  void CheckOrder();
  void Compute();
  void Save(int64_t order);
  void EndSave(int64_t step, bool fails);
  void CommitManifest(int64_t step);
  void FinishWhenSaved();
  void Tell();
  SaveStatus* FindSave(int64_t step);
  CheckpointKey KeyOf(int64_t step) const { return {step, id_.generation.value()}; }
  std::string DirectoryOf(int64_t step) const;
  void End(Remains remains, bool reset);
  void Exit(FailureKind kind, const std::string& message);

  World& world_;
  SimNode& node_;
  const TrainerId id_;
  const JobFacts& facts_;
  TrainerOrder order_;
  TrainerReport status_;
  bool alive_ = true;
  bool frozen_ = false;
  bool met_asked_ = false;
  bool training_ = false;
  bool finishing_ = false;
  bool ending_ = false;
  int64_t answered_order_ = 0;
  std::vector<int64_t> committing_;
  std::vector<Timeline::Action> held_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_TRAINER_H_
