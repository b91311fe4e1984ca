#include "controller/core/schedule/extra_ranks.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

void Change(const std::vector<NodeShare>& shares, int sign, std::vector<int>& freed) {
  for (const NodeShare& share : shares) {
    freed[static_cast<size_t>(share.node)] += sign * share.count;
  }
}

}  // namespace

void ExtraRanks::Add(const Job& job) {
  auto from = job.ranks.end();
  for (const int ranks : StepsDown(job)) {
    Step& step = steps_.emplace_back();
    step.job = &job;
    step.ranks = ranks;
    const auto to = job.ranks.begin() + ranks;
    for (auto member = to; member != from; ++member) {
      const int n = index_->Find(member->slot.node);
      if (n >= 0 && HoldsSlot(job, *member)) step.shares.push_back({n, 1});
    }
    from = to;
  }
}

std::vector<int> ExtraRanks::Give(const Gain& gain, int wanted, bool partly,
                                  const std::string& beneficiary,
                                  const std::function<bool(const JobRequest&)>& gives) {
  if (steps_.empty()) return {};
  std::vector<int> freed(static_cast<size_t>(index_->size()));
  const int before = gain(freed);
  if (before >= wanted) return {};
  std::vector<bool> given(steps_.size());
  for (size_t s = 0; s < steps_.size(); ++s) {
    given[s] = gives(steps_[s].job->request);
    if (given[s]) Change(steps_[s].shares, 1, freed);
  }
  const int best = std::min(wanted, gain(freed));
  if (best <= before || (best < wanted && !partly)) return {};
  // Leaves out what is not needed, the costliest first; of each job the last steps.
  std::set<const Job*> needed;
  for (size_t s = steps_.size(); s-- > 0;) {
    if (!given[s] || needed.count(steps_[s].job) > 0) continue;
    Change(steps_[s].shares, -1, freed);
    if (gain(freed) >= best) {
      given[s] = false;
    } else {
      Change(steps_[s].shares, 1, freed);
      needed.insert(steps_[s].job);
    }
  }
  std::vector<Step> left;
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!given[s]) {
      left.push_back(std::move(steps_[s]));
      continue;
    }
    // Of what a job gives to several, the first that needs it is named.
    ScheduleDecision::GiveBack& back = given_[steps_[s].job->request.id];
    if (back.beneficiary.empty()) back.beneficiary = beneficiary;
    back.ranks = steps_[s].ranks;
  }
  steps_ = std::move(left);
  return freed;
}

std::vector<NodeShare> LeavingSlots(const Job& job, const NodeIndex& index) {
  std::vector<NodeShare> shares;
  const auto add = [&](const RankState& trainer) {
    const int n = index.Find(trainer.slot.node);
    if (n >= 0 && HoldsSlot(job, trainer)) shares.push_back({n, 1});
  };
  for (const RankState& trainer : job.leaving) add(trainer);
  if (job.recovery.growth_to == 0) return shares;
  for (size_t i = static_cast<size_t>(job.request.spares); i < job.spares.size(); ++i) {
    add(job.spares[i]);
  }
  return shares;
}

}  // namespace paceline
