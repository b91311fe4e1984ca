// The stragglers of all jobs: what running jobs measure goes in, and what is to be stored and done
// comes out.
//
//   steps of a rank ──────────▶ ╭────────────╮ ──▶ decisions to be stored, or forgotten
//   the cluster has stepped ──▶ │ Stragglers │ ──▶ events for the cluster, as a person's would be
//   a person applies ─────────▶ ╰────────────╯
//
// Who uses it has the events happen at once (CarryOut), and stores the decisions with what they
// change, in one transaction (control_loop.cc).
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
  // A decision of a job.
  using Key = std::pair<JobId, int64_t>;

  std::set<Key> store;   // As Find(job)->policy().Find(id) has it now.
  std::set<Key> forget;  // No longer known.
  std::vector<Event> events;

  bool empty() const { return store.empty() && forget.empty() && events.empty(); }
  // Those of a later call, to be done with these.
  void Merge(StragglerActions later);
};

// Has the cluster do what was decided, and what follows from that, until nothing is left to do:
// adds to both what comes of it. All events happen before `follow` (Stragglers::Follow) hears of
// any: it looks for what each order under way has changed, and would miss what is still to happen.
void CarryOut(Cluster& cluster, const std::function<StragglerActions(const Actions&)>& follow,
              Moment now, Actions& actions, StragglerActions& decided);

class Stragglers {
 public:
  // The serialized paceline.v1.Strategy with another ladder.
  using WithLadder = std::function<std::string(const std::string& strategy, const Ladder& ladder)>;

  // The serialized paceline.v1.Strategy of a job that leaves it to the controller, when it trains
  // by this; `asked`: that of its spec.
  using StrategyOf = std::function<std::string(const std::string& asked,
                                               const std::optional<SlipstreamChoice>& choice)>;

  Stragglers(const StragglerOptions& options, WithLadder with_ladder, StrategyOf strategy_of)
      : options_(options),
        with_ladder_(std::move(with_ladder)),
        strategy_of_(std::move(strategy_of)) {}

  // Takes over what was stored, after the cluster has.
  StragglerActions Restore(std::map<JobId, std::vector<RemedyDecision>> decisions,
                           const Cluster& cluster, Moment now);

  // The cluster has taken an event in, and this came of it.
  StragglerActions Follow(const Cluster& cluster, const Actions& actions, Moment now);

  // Steps that a trainer has finished, as its node tells, oldest first.
  StragglerActions TakeSteps(const Cluster& cluster, const NodeName& node, const TrainerId& trainer,
                             absl::Span<const StepTimes> steps, Moment now);

  // JobStragglers::RefuseApply. Requires: the job exists.
  std::optional<Refusal> RefuseApply(const Cluster& cluster, const JobId& job, int64_t advice);
  // Requires: RefuseApply has no objection.
  StragglerActions Apply(const Cluster& cluster, const JobId& job, int64_t advice,
                         const std::string& by, Moment now);

  // To be called at NextDeadline.
  StragglerActions Tick(const Cluster& cluster, Moment now);
  // Steady; infinite: never.
  absl::Time NextDeadline() const;

  // Null: nothing is known of the job's stragglers. Valid until the job is deleted.
  const JobStragglers* Find(const JobId& job) const;

 private:
  JobStragglers& Get(const Job& job);
  const JobView& ViewOf(const Cluster& cluster, const Job& job);
  // Those that what came of a step has made old.
  void ForgetViews(const Actions& stepped);
  // Times that a straggler was replaced on the node, of all jobs that are known, since it was
  // drained last: whoever lets it work again has looked at it.
  int CountReplacements(const NodeName& node) const;
  void Take(const Job& job, const RemedyActions& taken, StragglerActions& actions);
  // Brings the indexes below up to date, after anything that it was told.
  void Index(const Job& job, const JobStragglers& stragglers);
  // What takes back what is left of an order that has failed.
  std::vector<Event> EventsAfterFailure(const Job& job, const RemedyDecision& failed) const;
  Event ChangeOfPlan(const Job& job, const Ladder& ladder) const;
  Event ChangeOfPlan(const Job& job, const std::optional<SlipstreamChoice>& strategy) const;
  // What carries the decision out.
  std::vector<Event> EventsOf(const Job& job, const RemedyPolicy& policy,
                              const RemedyDecision& decision) const;

  const StragglerOptions options_;
  const WithLadder with_ladder_;
  const StrategyOf strategy_of_;
  // Each batch of steps looks its job up. Has no order: only what does not depend on one may look
  // at all.
  absl::flat_hash_map<JobId, std::unique_ptr<JobStragglers>> jobs_;
  // Indexes of these, without the jobs that are over, of which only the decisions are kept: most of
  // what comes is about one job, and must not look at all.
  std::set<JobId> in_flight_;  // Have an order under way.
  Deadlines<JobId> deadlines_;
  // As of the cluster's last step. Steps are told much more often than anything changes that a view
  // shows.
  absl::node_hash_map<JobId, JobView> views_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLERS_H_
