// Sees the decisions about stragglers, and says when an invariant does not hold:
//
//   - an order fits the present job: its generation, its plan version, the node of its rank; and at
//     most one order or check of a job is under way;
//   - orders are automatic only in mode auto (orders of strategies in mode advise, too), while the
//     automation is not paused and, for drains, while its brake does not object; and not within
//     cool_down of the last one's end;
//   - ladders and strategies change at most once per ladder_window, except to take a change back;
//     between ddp and Slipstream ranks change only with a new generation;
//   - a node is replaced automatically only if it was slow at some time, and not if it became slow
//     together with more than a quarter of the job's ranks that are still slow. This is not checked
//     if its daemon, or those of more than a quarter of the ranks, have reported plausible but
//     false times of their ranks;
//   - a straggler that persists is replaced in the end (straggler_liveness.h);
//   - an order ends within order_timeout;
//   - a ladder that has failed is no longer in the job's plan, if the plan can be changed;
//   - decisions are stored with the event that changes them, and read back unchanged; an id is
//     never used twice;
//   - a job that has ended has no open decision.
//
// An order that was not stored when the controller died was never sent, and does not count.
//
// Thread-compatible.
#ifndef TESTS_SIM_STRAGGLER_JUDGE_H_
#define TESTS_SIM_STRAGGLER_JUDGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/core/stragglers/job/stragglers.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/straggler_liveness.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class StragglerJudge {
 public:
  explicit StragglerJudge(World& world) : world_(world), liveness_(world) {}

  // The controller has started with these stored decisions.
  void OnRestored(const Stored& stored,
                  const std::map<JobId, std::vector<RemedyDecision>>& decisions);
  // This was decided; the resulting events have not happened yet.
  void OnDecided(const Cluster& cluster, const Stragglers& stragglers,
                 const StragglerActions& decided);
  // All resulting events have happened, and these records will be stored.
  void OnStored(const Cluster& cluster, const Stragglers& stragglers, const Stored& puts,
                const std::vector<StragglerActions::Key>& forgotten);
  // These records have been stored.
  void OnDurable(const Stored& puts);

 private:
  using Key = StragglerActions::Key;
  struct OfJob {
    std::map<int64_t, uint64_t> stored;  // Digests by id.
    // By id of the decision: when the automation began to rest after it, and when it changed the
    // ladder or strategy.
    std::map<int64_t, Micros> rested;
    std::map<int64_t, Micros> changed;
    Generation generation;    // Last generation of the job.
    bool slipstream = false;  // Whether that trained by Slipstream.
  };

  void CheckOrder(const Cluster& cluster, const Job& job, const RemedyDecision& decision);
  void CheckAutomatic(const Cluster& cluster, const Job& job, const RemedyDecision& decision);
  void CheckReplaced(const Job& job, const RemedyDecision& decision);
  void CheckTimes(const Job& job, const RemedyDecision& decision);
  void CheckKind(const Job& job);
  void CheckStored(const Job& job, const RemedyPolicy& policy);
  void Count(const RemedyDecision& decision);
  template <typename... Args>
  void Fail(const Job& job, const RemedyDecision& decision, const Args&... args);

  World& world_;
  StragglerLiveness liveness_;
  std::map<Key, DecisionState> states_;
  std::map<JobId, OfJob> jobs_;
  std::map<Key, uint64_t> durable_;  // Meaning of each id.
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_STRAGGLER_JUDGE_H_
