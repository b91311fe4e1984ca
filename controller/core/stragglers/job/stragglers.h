// The stragglers of all jobs: measurements of running jobs go in, and what is to be stored and done
// comes out.
//
//   steps of a rank ──────────▶ ╭────────────╮ ──▶ decisions to be stored, or forgotten
//   the cluster has stepped ──▶ │ Stragglers │ ──▶ events for the cluster, as a person's would be
//   a person applies ─────────▶ ╰────────────╯
//
// The caller makes the events happen at once (CarryOut), and stores the decisions in one
// transaction with what they change (control_loop.cc).
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLERS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/cluster/deadlines.h"
#include "controller/core/stragglers/job/job_stragglers.h"

namespace paceline {

struct StragglerActions {
  // A job, and the id of one of its decisions.
  using Key = std::pair<JobId, int64_t>;

  std::set<Key> store;   // As Find(job)->policy().Find(id) returns them.
  std::set<Key> forget;  // Decisions that are no longer kept.
  std::vector<Event> events;

  bool empty() const { return store.empty() && forget.empty() && events.empty(); }
  // Adds those of a later call, so that both are done together.
  void Merge(StragglerActions later);
};

// Makes the cluster do what was decided and what follows from that, until nothing is left to do,
// and adds the results to both. All events happen before `follow` (Stragglers::Follow) hears of
// any: it looks for what each order under way has changed, and would miss what is still to happen.
void CarryOut(Cluster& cluster, const std::function<StragglerActions(const Actions&)>& follow,
              Moment now, Actions& actions, StragglerActions& decided);

class Stragglers {
 public:
  // Returns the serialized paceline.v1.Strategy with another ladder.
  using WithLadder = std::function<std::string(const std::string& strategy, const Ladder& ladder)>;

  // Returns the serialized paceline.v1.Strategy for a job that leaves it to the controller and
  // trains by `choice`. `asked`: the strategy of its spec.
  using StrategyOf = std::function<std::string(const std::string& asked,
                                               const std::optional<SlipstreamChoice>& choice)>;

  Stragglers(const StragglerOptions& options, WithLadder with_ladder, StrategyOf strategy_of)
      : options_(options),
        with_ladder_(std::move(with_ladder)),
        strategy_of_(std::move(strategy_of)) {}

  // Takes over what was stored. Call it after the cluster was restored.
  StragglerActions Restore(std::map<JobId, std::vector<RemedyDecision>> decisions,
                           const Cluster& cluster, Moment now);

  // The cluster has taken in an event, with these actions.
  StragglerActions Follow(const Cluster& cluster, const Actions& actions, Moment now);

  // Takes in steps that a trainer has finished, as its node reports them, oldest first.
  StragglerActions TakeSteps(const Cluster& cluster, const NodeName& node, const TrainerId& trainer,
                             absl::Span<const StepTimes> steps, Moment now);

  // As JobStragglers::RefuseApply. Requires: the job exists.
  std::optional<Refusal> RefuseApply(const Cluster& cluster, const JobId& job, int64_t advice);
  // Requires: RefuseApply has no objection.
  StragglerActions Apply(const Cluster& cluster, const JobId& job, int64_t advice,
                         const std::string& by, Moment now);

  // Call it at NextDeadline.
  StragglerActions Tick(const Cluster& cluster, Moment now);
  // Steady; infinite: never.
  absl::Time NextDeadline() const;

  // Null: nothing is known of the job's stragglers. Valid until the job is deleted.
  const JobStragglers* Find(const JobId& job) const;

 private:
  JobStragglers& Get(const Job& job);
  const JobView& ViewOf(const Cluster& cluster, const Job& job);
  // Forgets views that are outdated by a step of the cluster.
  void ForgetViews(const Actions& stepped);
  // How often a straggler was replaced on the node, in all known jobs, since the node was last
  // drained: whoever puts it back to work has looked at it.
  int CountReplacements(const NodeName& node) const;
  void Take(const Job& job, const RemedyActions& taken, StragglerActions& actions);
  // Brings the indexes below up to date after any change.
  void Index(const Job& job, const JobStragglers& stragglers);
  // The events that take back what is left of a failed order.
  std::vector<Event> EventsAfterFailure(const Job& job, const RemedyDecision& failed) const;
  Event ChangeOfPlan(const Job& job, const Ladder& ladder) const;
  Event ChangeOfPlan(const Job& job, const std::optional<SlipstreamChoice>& strategy) const;
  // The events that carry the decision out.
  std::vector<Event> EventsOf(const Job& job, const RemedyPolicy& policy,
                              const RemedyDecision& decision) const;

  const StragglerOptions options_;
  const WithLadder with_ladder_;
  const StrategyOf strategy_of_;
  // Each batch of steps looks its job up here. It has no order, so only what does not depend on the
  // order may iterate.
  absl::flat_hash_map<JobId, std::unique_ptr<JobStragglers>> jobs_;
  // Indexes of jobs_, without ended jobs, of which only the decisions are kept. Most input is about
  // one job, and must not look at all of them.
  std::set<JobId> in_flight_;  // They have an order under way.
  Deadlines<JobId> deadlines_;
  // Views as of the cluster's last step. Steps are reported far more often than anything that a
  // view shows changes.
  absl::node_hash_map<JobId, JobView> views_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLERS_H_
