// The controller: the real Cluster and Stragglers, and a model of what is around them
// (control_loop, commit_queue, worker_sessions). Its stored state survives it; no message is sent
// before the change that it reports is stored.
//
// Thread-compatible.
#ifndef TESTS_SIM_SIM_CONTROLLER_H_
#define TESTS_SIM_SIM_CONTROLLER_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/cluster/cluster.h"
#include "controller/core/stragglers/job/stragglers.h"
#include "controller/store/testing/memory_store.h"
#include "tests/sim/messages.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// The state that survives the controller.
struct Stored {
  std::map<JobId, std::shared_ptr<const Job>> jobs;
  std::map<NodeName, std::shared_ptr<const Node>> nodes;
  Automation automation;
  std::map<StragglerActions::Key, std::shared_ptr<const RemedyDecision>> decisions;
};

class SimController {
 public:
  using Answer = std::function<void()>;

  explicit SimController(World& world);

  void Start();
  // Its process dies; the batch that is being stored may have become durable.
  void Crash();
  bool is_up() const { return cluster_.has_value(); }
  int64_t start_number() const { return start_number_; }

  // Requires: is_up().
  const Cluster& cluster() const { return *cluster_; }
  Moment Now() const;
  // `answer` runs when all that follows from the event is durable.
  void Apply(const Event& event, Answer answer = nullptr);

  // Calls about the job's stragglers. Requirements as in Stragglers.
  const Stragglers& stragglers() const { return *stragglers_; }
  std::optional<Refusal> RefuseAdvice(const JobId& job, int64_t advice);
  void ApplyAdvice(const JobId& job, int64_t advice, const std::string& by);

  // From daemons.
  void OnHello(const SessionPtr& session, NodeFacts facts, const Report& report);
  void OnReport(const SessionPtr& session, const Report& report);
  // Steps may come late, twice, in any order or not at all.
  void OnSteps(const NodeName& node, const TrainerId& trainer, const std::vector<StepTimes>& steps);
  // The controller has learnt that the session is over.
  void OnSessionEnd(const SessionPtr& session);

  void JumpWallClock(absl::Duration by) { wall_offset_ += by; }

 private:
  struct Batch {
    Stored puts;
    std::vector<JobId> deletes;
    std::vector<StragglerActions::Key> forgotten;  // Decisions.
    std::optional<Automation> automation;
    WriteBatch encoded;
    std::vector<std::pair<NodeName, std::shared_ptr<const NodeOrders>>> plans;
    Answer answer;
    bool empty() const {
      return puts.jobs.empty() && puts.nodes.empty() && puts.decisions.empty() && deletes.empty() &&
             forgotten.empty() && !automation.has_value();
    }
  };

  // In sim_controller_stragglers.cc; like ControlLoop::Carry.
  void Carry(Actions actions, StragglerActions decided, Answer answer);
  StragglerActions Follow(const Actions& stepped);
  StragglerActions Judged(StragglerActions decided);
  void PutDecisions(const StragglerActions& decided, Batch& batch);
  void RestoreStragglers(std::map<JobId, std::vector<RemedyDecision>> decisions);

  void Add(Batch batch);
  void CommitNext();
  void Store(const Batch& batch);
  void Finish(const Batch& batch);
  void SendPlan(const NodeName& node, const std::shared_ptr<const NodeOrders>& plan);
  std::shared_ptr<const NodeOrders> PlanFor(const NodeName& node) const;
  void Grant(const SessionPtr& session, int64_t report);
  void ArmTimer();
  void CloseAtNode(const SessionPtr& session);

  World& world_;
  Random random_;
  Random late_;  // How late timers are.
  std::optional<Cluster> cluster_;
  std::optional<Stragglers> stragglers_;
  int64_t start_number_ = 0;
  absl::Duration steady_offset_;
  absl::Duration wall_offset_;
  Micros timer_ = kNever;
  int64_t timer_number_ = 0;

  // Survives the controller.
  Stored stored_;
  MemoryStore encoded_;

  std::deque<Batch> queue_;
  bool committing_ = false;
  std::map<NodeName, SessionPtr> sessions_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_SIM_CONTROLLER_H_
