#include "controller/core/stragglers/job/exchange_watch.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace paceline {
namespace {

constexpr int kGradients = 0;  // ExchangeGroup::level

std::vector<int> RanksOf(const ExchangeGroup& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.ranks; ++i) ranks.push_back(group.first_rank + i);
  return ranks;
}

}  // namespace

ExchangeWatch::ExchangeWatch(const DetectorOptions& options, const ExchangeLevels& levels)
    : warmup_steps_(levels.warmup_steps) {
  if (levels.ladder.empty()) return;
  AddLevel(options, kGradients, levels.gradient_groups);
  int number = 0;
  for (const LadderLevel& level : levels.ladder) {
    AddLevel(options, ++number, LadderGroups(level.scope, level.size, levels.homes));
  }
}

void ExchangeWatch::AddLevel(const DetectorOptions& options, int level,
                             const std::vector<int>& sizes) {
  std::map<int, std::vector<ExchangeGroup>> by_size;
  int first_rank = 0;
  for (const int size : sizes) {
    const ExchangeGroup group{level, std::exchange(first_rank, first_rank + size), size, 0, 0};
    if (size > 1 && !AveragesAlready(group)) by_size[size].push_back(group);
  }
  for (auto& [size, groups] : by_size) {
    if (static_cast<int>(groups.size()) <= options.min_peers) continue;
    std::vector<std::vector<int>> ranks;
    for (const ExchangeGroup& group : groups) ranks.push_back(RanksOf(group));
    Comparison comparison;
    comparison.watch = std::make_unique<CommWatch>(options, std::move(ranks));
    comparison.groups = std::move(groups);
    comparisons_.push_back(std::move(comparison));
  }
}

void ExchangeWatch::Add(const StepRow& row, std::vector<ExchangeVerdict>& verdicts) {
  for (Comparison& comparison : comparisons_) {
    comparison.job_s += row.total_s;
    if (!HasExchanged(comparison, row)) continue;
    const double job_s = std::exchange(comparison.job_s, 0);
    for (size_t g = 0; g < comparison.groups.size(); ++g) {
      const ExchangeGroup& group = comparison.groups[g];
      durations_s_.clear();
      const auto first = row.exchanges.begin() + group.first_rank;
      std::transform(first, first + group.ranks, std::back_inserter(durations_s_),
                     [&](const RankExchange& exchange) {
                       return group.level == kGradients ? exchange.gradients_s
                                                        : exchange.averaging_s;
                     });
      comparison.watch->Add(static_cast<int>(g), row.step, durations_s_, job_s, found_);
    }
    for (const CommVerdict& found : found_) {
      ExchangeGroup group = comparison.groups[static_cast<size_t>(found.group)];
      group.waits_least = found.waits_least;
      group.waits_least_share = found.share;
      verdicts.push_back({found.verdict, group});
    }
    found_.clear();
  }
}

bool ExchangeWatch::AveragesAlready(const ExchangeGroup& group) const {
  for (const Comparison& comparison : comparisons_) {
    for (const ExchangeGroup& other : comparison.groups) {
      const bool is_same = other.first_rank == group.first_rank && other.ranks == group.ranks;
      if (is_same && other.level != kGradients) return true;
    }
  }
  return false;
}

bool ExchangeWatch::HasExchanged(const Comparison& comparison, const StepRow& row) const {
  if (row.step < warmup_steps_) return false;
  return std::all_of(
      comparison.groups.begin(), comparison.groups.end(), [&](const ExchangeGroup& group) {
        if (group.level == kGradients) return true;
        const auto first = row.exchanges.begin() + group.first_rank;
        return std::all_of(first, first + group.ranks, [&](const RankExchange& exchange) {
          return exchange.averaging_ranks == group.ranks;
        });
      });
}

}  // namespace paceline
