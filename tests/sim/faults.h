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

  // Breaks things until the quiet phase; then everything works again.
  void Start();

 private:
  using Break = void (Faults::*)();

  // Runs `one` again and again, with random pauses of that mean.
  void Repeat(Micros mean, Break one);

  // Looks for changes of membership, to interrupt some of them.
  void Watch();
  void Interrupt(const Job& job, bool by_loss);
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

  void Crash(SimNode& node);  // Its host.
  void Cut(const std::vector<SimNode*>& nodes, bool up, bool down);
  // Runs `undo` after some time, mostly short, sometimes long, at the latest in the quiet phase.
  void Undo(Timeline::Action undo, Micros at_least = 0);
  SimNode& AnyNode();
  TrainerPtr AnyTrainer();  // Null if none lives.

  World& world_;
  std::map<JobId, Generation> changed_;  // Changes seen that may be interrupted.
  Random random_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_FAULTS_H_
