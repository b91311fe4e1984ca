#include "tests/sim/straggler_liveness.h"

#include <algorithm>
#include <utility>

#include "controller/core/job/plan.h"
#include "controller/core/recovery/membership.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/straggler_options.h"

namespace paceline::sim {
namespace {

// More than the straggler loop needs with ShortHistoryOptions, including its rests.
constexpr int64_t kSteps = 250;
constexpr Micros kTime = 15 * kSecond;
// The straggler is found before that.
constexpr int64_t kCounted = 30;
// A slowness that the detector certainly finds.
constexpr double kSlowness = 1.3;
constexpr int kPeers = 3;
// Remaining steps that make a remedy worth it.
constexpr int64_t kStepsLeft = 200;

const SimNode& NodeOf(const World& world, const RankState& trainer) {
  const auto found = std::find_if(world.nodes.begin(), world.nodes.end(), [&](const auto& node) {
    return node->name() == trainer.slot.node;
  });
  return **found;
}

int CountOn(const std::vector<RankState>& ranks, const NodeName& node) {
  return static_cast<int>(std::count_if(
      ranks.begin(), ranks.end(), [&](const RankState& rank) { return rank.slot.node == node; }));
}

}  // namespace

void StragglerLiveness::OnStep(const Cluster& cluster, const Stragglers& stragglers) {
  if (!world_.settings.stragglers) return;
  for (const auto& [id, job] : cluster.jobs()) {
    const JobStragglers* const known = stragglers.Find(id);
    if (known != nullptr) Check(cluster, job, known->policy());
  }
}

void StragglerLiveness::Check(const Cluster& cluster, const Job& job, const RemedyPolicy& policy) {
  const SimNode* const slow = FindSlow(job);
  if (slow == nullptr || IsDisturbed(cluster, job, policy, *slow)) {
    watched_.erase(job.request.id);
    return;
  }
  const int64_t step = Summarize(job, absl::InfinitePast()).step;
  const Situation situation(slow, slow->slowness, job.generation, FindActivePlan(job).version);
  const auto [known, is_new] = watched_.try_emplace(job.request.id);
  Watched& watched = known->second;
  if (is_new || watched.situation != situation) {
    watched = {situation, world_.time.now(), step, false};
    return;
  }
  const int64_t steps = step - watched.step;
  const Micros time = world_.time.now() - watched.since;
  if (steps >= kCounted && !std::exchange(watched.counted, true)) {
    world_.coverage.Count("straggler that nothing keeps from being replaced");
  }
  if (steps < kSteps || time < kTime) return;
  world_.trace.Fail(job.request.id.value(), ": ", slow->name().value(), " has been slow for ",
                    steps, " steps, and nobody replaces its ranks");
}

const SimNode* StragglerLiveness::FindSlow(const Job& job) const {
  const SimNode* slow = nullptr;
  for (const RankState& rank : job.ranks) {
    const SimNode& node = NodeOf(world_, rank);
    if (node.slowness <= 1 || &node == slow) continue;
    if (slow != nullptr) return nullptr;
    slow = &node;
  }
  return slow;
}

bool StragglerLiveness::IsDisturbed(const SimNode& node) const {
  return node.garbled || node.tells_nonsense || !node.daemon_is_up() ||
         world_.network->ControlIsCut(node.index());
}

bool StragglerLiveness::IsDisturbed(const Cluster& cluster, const Job& job,
                                    const RemedyPolicy& policy, const SimNode& slow) const {
  const Settings& settings = world_.settings;
  const int here = CountOn(job.ranks, slow.name());
  const int ranks = static_cast<int>(job.ranks.size());
  const bool is_clear = slow.slowness >= kSlowness && slow.slow_together == 0 &&
                        4 * here <= ranks && ranks - here >= kPeers &&
                        world_.jobs.at(job.request.id).stalls == 0 && settings.steps_lost == 0 &&
                        settings.steps_late == 0;
  const bool may_act = job.request.stragglers == StragglerMode::kAuto &&
                       job.state == JobState::kRunning && ChangeUnderWay(job) == nullptr &&
                       job.recovery.vacate.empty() && !WhyRanksCannotMove(job).has_value() &&
                       !cluster.automation().paused &&
                       !cluster.RefuseAutomatic(slow.name()).has_value();
  if (!is_clear || !may_act) return true;
  const auto spares =
      std::count_if(job.spares.begin(), job.spares.end(),
                    [&](const RankState& spare) { return IsReady(spare) && IsUsable(job, spare); });
  const int64_t step = Summarize(job, absl::InfinitePast()).step;
  if (spares < here || job.request.steps - step < kStepsLeft) return true;
  if (std::any_of(job.ranks.begin(), job.ranks.end(),
                  [&](const RankState& rank) { return IsDisturbed(NodeOf(world_, rank)); })) {
    return true;
  }
  const absl::Time now = world_.controller->Now().steady;
  const absl::Duration pause = ShortHistoryOptions().remedy.pause;
  return std::any_of(
      policy.decisions().begin(), policy.decisions().end(), [&](const RemedyDecision& d) {
        const bool in_vain =
            d.state == DecisionState::kFailed || d.state == DecisionState::kDidNotHelp;
        return IsInFlight(d) || IsChecked(d) || (in_vain && now - d.since < pause);
      });
}

}  // namespace paceline::sim
