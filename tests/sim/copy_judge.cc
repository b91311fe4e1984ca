#include "tests/sim/copy_judge.h"

#include <algorithm>

namespace paceline::sim {

void CopyJudge::OnStep(const Cluster& cluster) {
  if (world_.settings.shards == 1) return;
  for (const auto& [id, job] : cluster.jobs()) {
    for (const MembershipChange& change : job.recovery.history) {
      if (change.restored_step == 0 || change.ended == absl::InfinitePast()) continue;
      const std::pair<JobId, int64_t> key{id, change.generation.value()};
      if (!checked_.insert(key).second || change.steps_lost == lost_[key]) continue;
      world_.trace.Fail(id.value(), " g", key.second, " says that ", change.steps_lost,
                        " steps were lost, and it were ", lost_[key]);
    }
  }
}

void CopyJudge::OnCopy(const Trainer& trainer, const CopyLabel& label, uint64_t state) {
  states_[{trainer.id().job, TrainerCopies::KeyOf(label)}] = state;
}

void CopyJudge::OnKept(const JobId& job, const CopyLabel& label, int ranks) {
  Kept& kept = kept_[{job, Step{label.generation, label.step}}];
  kept.ranks = ranks;
  kept.seats.insert(label.seat);
}

void CopyJudge::OnOrders(const JobId& job, int64_t generation,
                         const std::vector<CopyOrders>& orders) {
  const CopyOrders& first = orders.front();
  for (const CopyOrders& one : orders) {
    if (one.generation == generation && one.restore == first.restore &&
        one.CompleteOf(0) == first.CompleteOf(0)) {
      continue;
    }
    world_.trace.Fail(job.value(), " g", generation,
                      ": the ranks have different copies in mind: ", "of step ",
                      first.complete_step, " and of step ", one.complete_step);
  }
  const Step complete{first.complete_generation, first.complete_step};
  auto& [met, newest] = newest_[job];
  if (generation < met) return;  // Trainers that are left over.
  met = generation;
  // A new start has none.
  if (first.complete_step > 0 && complete < newest) {
    world_.trace.Fail(job.value(), " g", generation, " takes copies of step ", complete.second,
                      " for the newest, and those of step ", newest.second, " are newer");
  }
  newest = complete;
  if (!first.restore) return;
  const Kept& kept = kept_[{job, complete}];
  if (kept.ranks > 0 && static_cast<int>(kept.seats.size()) == kept.ranks) return;
  world_.trace.Fail(job.value(), " g", generation, " goes back to the copies of step ",
                    complete.second, ", which ", kept.seats.size(), " of ", kept.ranks,
                    " ranks had");
}

int64_t CopyJudge::OnGoingBack(const Trainer& trainer, int64_t generation, const CopyLabel& label,
                               uint64_t state) {
  const JobId& job = trainer.id().job;
  const auto copied = states_.find({job, TrainerCopies::KeyOf(label)});
  if (copied == states_.end() || copied->second != state) {
    world_.trace.Fail(trainer.name(), " goes back to a state that seat ", label.seat,
                      " has not had after step ", label.step);
  }
  const int64_t lost = trainer.has_state() ? std::max<int64_t>(trainer.step() - label.step, 0) : 0;
  int64_t& unreported = unreported_[trainer.id()];
  unreported = std::max(unreported, lost);
  int64_t& most = lost_[{job, generation}];
  most = std::max(most, unreported);
  return lost;
}

}  // namespace paceline::sim
