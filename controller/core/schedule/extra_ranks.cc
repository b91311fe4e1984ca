#include "controller/core/schedule/extra_ranks.h"

#include <algorithm>
#include <cstddef>
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

// Leaves out what is not needed, the costliest first; of each job the last steps. `freed`: at first
// by all that may be given, then by those that are needed.
std::vector<bool> ExtraRanks::FindNeeded(const Gain& gain, int least,
                                         const std::vector<size_t>& may,
                                         std::vector<int>& freed) const {
  std::vector<bool> needed(steps_.size());
  size_t at = may.size();  // Beside those that are decided, the steps before this one are freed.
  const auto move_to = [&](size_t to) {
    for (; at < to; ++at) Change(steps_[may[at]].shares, 1, freed);
    for (; at > to; --at) Change(steps_[may[at - 1]].shares, -1, freed);
  };
  for (size_t end = may.size(); end > 0;) {
    // The fewest steps that suffice beside those that are decided. All before `end` do.
    size_t low = 0;
    size_t high = end;
    while (low < high) {
      const size_t middle = (low + high) / 2;
      move_to(middle);
      if (gain(freed) >= least) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    move_to(low);
    if (low == 0) break;
    const Job* const job = steps_[may[low - 1]].job;
    for (end = low; end > 0 && steps_[may[end - 1]].job == job; --end) needed[may[end - 1]] = true;
    at = end;
  }
  return needed;
}

ExtraRanks::Freed ExtraRanks::Give(const Gain& gain, int wanted, bool partly,
                                   const std::string& beneficiary,
                                   const std::function<bool(const JobRequest&)>& gives) {
  if (steps_.empty()) return {};
  std::vector<int> freed(static_cast<size_t>(index_->size()));
  const int before = gain(freed);
  if (before >= wanted) return {};
  std::vector<size_t> may;
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!gives(steps_[s].job->request)) continue;
    Change(steps_[s].shares, 1, freed);
    may.push_back(s);
  }
  const int best = std::min(wanted, gain(freed));
  if (best <= before || (best < wanted && !partly)) return {};
  const std::vector<bool> needed = FindNeeded(gain, best, may, freed);
  Freed all{std::move(freed), {}};
  std::vector<Step> left;
  for (size_t s = 0; s < steps_.size(); ++s) {
    Step& step = steps_[s];
    if (!needed[s]) {
      left.push_back(std::move(step));
      continue;
    }
    // Of what a job gives to several, the first that needs it is named.
    ScheduleDecision::GiveBack& back = given_[step.job->request.id];
    if (back.beneficiary.empty()) back.beneficiary = beneficiary;
    back.ranks = step.ranks;
    if (all.by_job.empty() || all.by_job.back().first != step.job) {
      all.by_job.emplace_back(step.job, std::vector<NodeShare>());
    }
    std::vector<NodeShare>& shares = all.by_job.back().second;
    shares.insert(shares.end(), step.shares.begin(), step.shares.end());
  }
  steps_ = std::move(left);
  return all;
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
