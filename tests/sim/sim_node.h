// A host with a worker daemon: the real TrainerSet, Lease, StandbyAnswers and JudgeEnd, and a model
// of what is around them (worker_node, session, the directories of the trainers). The directories
// and the trainers survive the daemon; when a host dies, its trainers die too.
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
  Micros thawed() const { return thawed_; }  // When it was last unfrozen.
  // Factor on the times of its training; 1: as fast as the others.
  double slowness = 1;
  int64_t slow_together = 0;  // Number of the fault that made it slow with others; 0: none has.
  Micros slowed = 0;          // When it last became slow.
  bool was_slow = false;      // Ever.
  bool tells_nonsense = false;
  bool garbled = false;            // Has ever reported changed steps.
  bool reported_nonsense = false;  // Plausible ones, of its own ranks.

  void BreakSession();
  bool is_connected() const { return session_ != nullptr && welcomed_; }

  // From the controller.
  void OnWelcome(const SessionPtr& session);
  void OnPlan(const SessionPtr& session, const std::shared_ptr<const NodeOrders>& plan);
  void OnLease(const SessionPtr& session, int64_t report);
  void OnSessionEnd(const SessionPtr& session);
  // From a standby controller.
  void OnStandby(const SessionPtr& session);

  // From its trainers.
  void OnReported(const Trainer& trainer);
  void OnSuspended(const Trainer& trainer);
  void OnEnded(const Trainer& trainer, Remains remains);

  // Trainers whose processes live.
  std::vector<TrainerPtr> Living() const;
  // Runs `action` as part of a process of this host once the host is not frozen.
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

  // Runs `action` after `delay` as part of the present daemon.
  void Later(Micros delay, Timeline::Action action);
  absl::Time Clock() const;
  void Dial();
  void Lose();
  void Changed();
  void Report();
  void ReportEveryInterval();
  void TellSteps();
  void SendSteps(const TrainerId& id, std::vector<StepTimes> steps);
  // Replaces `steps` by nonsense, and returns the trainer that is reported instead of `id`.
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
  Random steps_random_;  // For reports of steps.
  const int index_;
  const NodeName name_;
  NodeFacts facts_;
  const double clock_rate_;
  const Micros clock_offset_;

  bool host_up_ = true;
  bool frozen_ = false;
  Micros thawed_ = -kSecond;
  std::vector<Timeline::Action> held_;  // Until a freeze ends.
  std::map<TrainerId, Directory> directories_;
  paceline::Lease kept_lease_;  // Survives the daemon, not the host.

  // State of the present daemon.
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
