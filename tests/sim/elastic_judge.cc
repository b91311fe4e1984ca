#include "tests/sim/elastic_judge.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/core/checkpoint/save_order.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"

namespace paceline::sim {
namespace {

// A planned change, another one before it, and a save that both wait for.
constexpr Micros kPatience = 120 * kSecond;

bool TakesRanks(const Node& node) {
  return node.contact == Contact::kReachable && node.holds.empty();
}

// Slots on nodes that take ranks: free ones, and those that would be if no job had more ranks than
// it wants.
std::pair<int, int> CountSlots(const Cluster& cluster) {
  int free = 0;
  int extra = 0;
  for (const auto& [name, node] : cluster.nodes()) {
    if (!TakesRanks(node)) continue;
    free += node.facts.slots - static_cast<int>(cluster.SlotsUsed(name, Device::kCpu).size());
  }
  for (const auto& [id, job] : cluster.jobs()) {
    const std::vector<int> steps = StepsDown(job);
    if (steps.empty() || IsOnItsWayOut(job)) continue;
    const auto first = job.ranks.begin() + steps.back();
    extra += static_cast<int>(std::count_if(first, job.ranks.end(), [&](const RankState& member) {
      const auto node = cluster.nodes().find(member.slot.node);
      return node != cluster.nodes().end() && TakesRanks(node->second);
    }));
  }
  return {free, extra};
}

// The first in the queue; null: nobody waits.
const Job* FirstWaiting(const Cluster& cluster) {
  const Job* first = nullptr;
  const auto order = [](const Job& job) {
    return std::make_tuple(-job.request.priority, job.number);
  };
  for (const auto& [id, job] : cluster.jobs()) {
    if (job.state != JobState::kQueued) continue;
    if (first == nullptr || order(job) < order(*first)) first = &job;
  }
  return first;
}

bool AllAnswer(const Cluster& cluster) {
  return std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                     [](const auto& entry) { return entry.second.contact == Contact::kReachable; });
}

// The ranks that the job could have with so many slots more; 0: it has a reason to stay as it is.
int CouldHave(const Job& job, int free) {
  const JobRecovery& recovery = job.recovery;
  const int ranks = static_cast<int>(job.ranks.size());
  const bool is_steady = job.state == JobState::kRunning && ChangeUnderWay(job) == nullptr &&
                         recovery.vacate.empty() && recovery.avoid.empty() && !IsOver(job) &&
                         !job.checkpoints.stop_after.has_value() &&
                         static_cast<int>(job.spares.size()) >= job.request.spares;
  if (!is_steady || !IsElastic(job.request) || ranks < job.request.ranks ||
      job.request.placement.replica != ReplicaPlacement::kPrefer) {
    return 0;
  }
  return PossibleRanksOf(job.request, ranks + free);
}

}  // namespace

void ElasticJudge::OnStep(const Cluster& cluster) {
  if (!world_.settings.elastic) return;
  for (const auto& [id, job] : cluster.jobs()) {
    Seen& seen = seen_[id];
    CheckNumbers(job);
    const bool begins = job.state == JobState::kRunning && seen.state != JobState::kRunning;
    const bool is_new = job.generation.value() != seen.generation;
    if (is_new) CheckChange(job, seen);
    if (is_new || begins) seen.since = world_.time.now();
    seen.generation = job.generation.value();
    seen.state = job.state;
  }
  CheckWaiting(cluster);
  CheckIdle(cluster);
}

void ElasticJudge::OnRestored(const Cluster& cluster) {
  waiting_ = JobId();
  for (const auto& [id, job] : cluster.jobs()) {
    seen_[id] = {job.generation.value(), job.state, world_.time.now(), -1};
  }
}

void ElasticJudge::CheckNumbers(const Job& job) {
  if (job.ranks.empty() || job.ended_already() || !Recovers(job)) return;
  const int ranks = static_cast<int>(job.ranks.size());
  const int least = job.request.recovery.min_ranks;
  const int most = MostRanks(job.request);
  if (ranks >= least && ranks <= most) return;
  world_.trace.Fail(job.request.id.value(), " g", job.generation.value(), " has ", ranks,
                    " ranks, and may have ", least, " to ", most);
}

void ElasticJudge::CheckChange(const Job& job, const Seen& seen) {
  const std::string& id = job.request.id.value();
  const MembershipChange* const change = ChangeUnderWay(job);
  const int wanted = job.request.ranks;
  if (change == nullptr) {
    const bool starts = job.state == JobState::kStarting;
    if (starts && static_cast<int>(job.ranks.size()) < wanted) {
      world_.coverage.Count("elastic: started with fewer");
    }
    return;
  }
  if (!change->planned) return;
  if (change->ranks_after < change->ranks_before) {
    world_.coverage.Count("elastic: gave back");
    if (change->ranks_after < wanted) {
      world_.trace.Fail(id, " goes down to ", change->ranks_after,
                        " ranks to make room, and wants ", wanted);
    }
  }
  if (change->ranks_after <= std::max(change->ranks_before, wanted)) return;
  world_.coverage.Count("elastic: grew beyond what it wants");
  const Micros quiet = world_.time.now() - seen.since;
  if (quiet >= absl::ToInt64Microseconds(kLeastPatience)) return;
  world_.trace.Fail(id, " g", job.generation.value(), " grows from ", change->ranks_before, " to ",
                    change->ranks_after, " ranks, and has changed only ", quiet / kMilli,
                    " ms before");
}

void ElasticJudge::CheckWaiting(const Cluster& cluster) {
  const Job* const first = FirstWaiting(cluster);
  bool is_kept_waiting = false;
  if (first != nullptr && AllAnswer(cluster) && !first->checkpoints.settlement.has_value() &&
      first->request.placement.replica == ReplicaPlacement::kPrefer) {
    const auto [free, extra] = CountSlots(cluster);
    is_kept_waiting = extra > 0 && free + extra >= LeastToStart(first->request);
  }
  if (!is_kept_waiting || !(waiting_ == first->request.id)) waits_since_ = world_.time.now();
  if (!is_kept_waiting) return;
  waiting_ = first->request.id;
  if (world_.time.now() < waits_since_ + kPatience) return;
  world_.trace.Fail(waiting_.value(), " waits although others have more ranks than they want");
}

void ElasticJudge::CheckIdle(const Cluster& cluster) {
  const Micros now = world_.time.now();
  const bool others_need =
      std::any_of(cluster.jobs().begin(), cluster.jobs().end(), [](const auto& entry) {
        return entry.second.state == JobState::kQueued || MissingRanks(entry.second) > 0;
      });
  const bool is_quiet = now >= world_.settings.quiet && !others_need && AllAnswer(cluster);
  const int free = is_quiet ? CountSlots(cluster).first : 0;
  for (const auto& [id, job] : cluster.jobs()) {
    Micros& since = seen_[id].may_grow;
    const int more = free == 0 ? 0 : CouldHave(job, free) - static_cast<int>(job.ranks.size());
    if (more <= 0) {
      since = -1;
      continue;
    }
    if (since < 0) since = now;
    const Micros patience = absl::ToInt64Microseconds(GrowthPatience(job, more)) + kPatience;
    // What is saved comes first.
    if (now < since + patience || IsOrderPending(job) || !StepsUnderWay(job).empty()) continue;
    world_.trace.Fail(id.value(), " g", job.generation.value(), " has ", job.ranks.size(),
                      " ranks, and could have ", more, " more for ", (now - since) / kSecond,
                      " s: nobody else needs the slots");
  }
}

}  // namespace paceline::sim
