// What breaks, when, and for how long.
//
// Thread-compatible.
#ifndef TESTS_SIM_FAULTS_H_
#define TESTS_SIM_FAULTS_H_

#include <map>
#include <vector>

#include "controller/core/job/job.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class Faults {
 public:
  explicit Faults(World& world) : world_(world), random_(world.random.Fork()) {}

  // Breaks things until the quiet; all is whole again then.
  void Start();

 private:
  using Break = void (Faults::*)();

  // Again and again, with times of that mean between.
  void Repeat(Micros mean, Break one);

  // Looks for planned changes, to interrupt some of them.
  void Watch();
  void Interrupt(const Job& job);
  void CrashController();
  void CrashDaemon();
  void CrashHost();
  void CrashTrainer();
  void FreezeTrainer();
  void HangTrainer();
  void FreezeHost();
  void BreakSession();
  void CutControl();
  void CutJob();
  void CutData();
  void JumpWallClock();
  void AskToEnd();

  void Cut(const std::vector<SimNode*>& nodes, bool up, bool down);
  // For some time, mostly short, sometimes long; the quiet at the latest.
  void Undo(Timeline::Action undo, Micros at_least = 0);
  SimNode& AnyNode();
  TrainerPtr AnyTrainer();  // Null: none lives.

  World& world_;
  std::map<JobId, Generation> planned_;  // Changes seen.
  Random random_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_FAULTS_H_
