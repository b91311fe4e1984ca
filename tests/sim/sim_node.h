// A host with a worker daemon: the real TrainerSet, Lease, StandbyAnswers and JudgeEnd, and a model
// of what is around them (worker_node, session, the directories of the trainers). The directories
// survive the daemon, the trainers do, too; a host that dies takes its trainers along.
//
// Thread-compatible.
#ifndef TESTS_SIM_SIM_NODE_H_
#define TESTS_SIM_SIM_NODE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/judge.h"
#include "tests/sim/messages.h"
#include "tests/sim/network.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"
#include "worker/daemon/core/lease.h"
#include "worker/daemon/core/standby_answers.h"
#include "worker/daemon/core/trainer_set.h"

namespace paceline::sim {

class SimNode {
 public:
  SimNode(World& world, int index, int slots);

  const NodeName& name() const { return name_; }
  int index() const { return index_; }

  void StartDaemon();
  void CrashDaemon();
  bool daemon_is_up() const { return set_.has_value(); }
  int64_t daemon_number() const { return daemon_number_; }

  void CrashHost(bool lose_disk);
  bool host_is_up() const { return host_up_; }
  void Boot();
  void Freeze();
  void Thaw();
  bool is_frozen() const { return frozen_; }
  Micros thawed() const { return thawed_; }  // When it last went on.
  // Of its training; 1: as fast as the others.
  double slowness = 1;
  int64_t slow_together = 0;  // Number of the fault that made it slow with others; 0: none has.
  Micros slowed = 0;          // When it became slow last.
  bool was_slow = false;      // Ever.
  bool tells_nonsense = false;
  bool garbled = false;        // What it has told, ever,
  bool told_nonsense = false;  // so that it could be believed, of ranks of its own.

  void BreakSession();
  bool is_connected() const { return session_ != nullptr && welcomed_; }

  // From the controller.
  void OnWelcome(const SessionPtr& session);
  void OnPlan(const SessionPtr& session, const std::shared_ptr<const NodeOrders>& plan);
  void OnLease(const SessionPtr& session, int64_t report);
  void OnSessionEnd(const SessionPtr& session);
  // From one that stands by.
  void OnStandby(const SessionPtr& session);

  // From its trainers.
  void OnTold(const Trainer& trainer);
  void OnSuspended(const Trainer& trainer);
  void OnEnded(const Trainer& trainer, Remains remains);

  // Of the trainers whose processes live.
  std::vector<TrainerPtr> Living() const;
  // Runs later as part of a process of this host, when it does not stand still.
  void WhenThawed(Timeline::Action action) { held_.push_back(std::move(action)); }

 private:
  // A trainer's directory.
  struct Directory {
    TrainerOrder plan;
    bool stop_requested = false;
    bool forgotten = false;
    TrainerReport seen;
    std::optional<Remains> remains;
    std::optional<TrainerExit> result;
    TrainerPtr process;
    absl::Time last_step;
    int64_t steps_seen = -1;
    bool fenced = false;
    bool stacks_asked = false;
    bool alive() const { return process != nullptr && process->is_alive(); }
  };

  // Runs as part of the daemon that runs now.
  void Later(Micros delay, Timeline::Action action);
  absl::Time Clock() const;
  void Dial();
  void Lose();
  void Changed();
  void Report();
  void ReportEveryInterval();
  void TellSteps();
  void SendSteps(const TrainerId& id, std::vector<StepTimes> steps);
  // What is told instead, and of whom.
  TrainerId Garble(TrainerId id, std::vector<StepTimes>& steps);
  sim::Report MakeReport();
  void CheckLease();
  void Poll();
  void SaveStacks(const TrainerOrder& order, Directory& directory);

  void Take(const NodeOrders& plan);
  void Apply(const TrainerEvent& event);
  void Execute(const std::vector<TrainerAction>& actions);
  void ArmDeadline();
  void Start(const TrainerId& id);
  void Skip(const TrainerId& id);
  void Stop(const TrainerId& id, bool kill);
  void JudgeIt(Directory& directory, bool stop_requested);
  void RunTasks();

  World& world_;
  Random random_;
  Random steps_random_;  // Of what is told of steps.
  const int index_;
  const NodeName name_;
  NodeFacts facts_;
  const double clock_rate_;
  const Micros clock_offset_;

  bool host_up_ = true;
  bool frozen_ = false;
  Micros thawed_ = -kSecond;
  std::vector<Timeline::Action> held_;  // For the end of a freeze.
  std::map<TrainerId, Directory> directories_;
  paceline::Lease kept_lease_;  // Outlives the daemon, not the host.

  // Of the daemon that runs.
  int64_t daemon_number_ = 0;
  std::optional<TrainerSet> set_;
  std::set<TrainerId> known_;  // Those of the reports.
  std::map<TrainerId, TrainerOrder> plans_;
  std::vector<CheckpointTask> tasks_;
  std::vector<CheckpointTaskResult> results_;
  bool task_runs_ = false;
  paceline::Lease lease_;
  StandbyAnswers standbys_;
  int64_t report_number_ = 0;
  SessionPtr session_;
  size_t asked_ = 0;  // Which controller the session is with, if nobody leads; and since when.
  absl::Time dialled_;
  bool welcomed_ = false;
  bool report_due_ = false;
  int64_t report_timer_ = 0;
  int64_t deadline_timer_ = 0;
  Micros backoff_ = 0;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_SIM_NODE_H_
