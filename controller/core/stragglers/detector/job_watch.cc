#include "controller/core/stragglers/detector/job_watch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
// If backward shows less than this part of what forward shows, the host pauses.
constexpr double kHostOnly = 0.25;
constexpr double kLeastDataResidual = -0.5;
constexpr int kNodeRanks = 2;

WatchOptions MakeWatchOptions(const DetectorOptions& options) {
  WatchOptions watch;
  watch.min_slowdown = options.min_slowdown;
  watch.max_slowdown = options.max_slowdown;
  watch.release_steps = options.release_steps;
  watch.persistent_steps = options.persistent_steps;
  watch.persistent_s = options.persistent_s;
  return watch;
}

// `lasting`: whether the rank has been persistent since it became slow.
VerdictKind KindOf(RankWatch::Change change, bool lasting) {
  switch (change) {
    case RankWatch::Change::kPersistent:
      return VerdictKind::kPersistent;
    case RankWatch::Change::kTransient:
    case RankWatch::Change::kRecovered:
      return lasting ? VerdictKind::kRecovered : VerdictKind::kTransient;
    default:
      return VerdictKind::kSuspect;
  }
}

}  // namespace

JobWatch::JobWatch(const DetectorOptions& options, std::vector<DetectorRank> ranks,
                   NodeHistory& history)
    : options_(options),
      ranks_(std::move(ranks)),
      history_(history),
      peers_(ranks_, options.min_peers),
      times_(static_cast<int>(ranks_.size())),
      own_(static_cast<int>(ranks_.size()), MakeWatchOptions(options)),
      data_(static_cast<int>(ranks_.size()), MakeWatchOptions(options)),
      groups_(peers_.groups().size()),
      group_of_(ranks_.size()),
      node_of_(ranks_.size()),
      slow_(ranks_.size()),
      lasting_(ranks_.size()),
      forward_(ranks_.size()),
      backward_(ranks_.size()),
      group_typical_(peers_.groups().size()),
      scratch_(peers_.groups().size()) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (const int rank : peers_.members(group)) group_of_[static_cast<size_t>(rank)] = group;
  }
  absl::flat_hash_map<int, size_t> index;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const auto [entry, is_new] = index.try_emplace(ranks_[rank].node, nodes_.size());
    if (is_new) nodes_.push_back({ranks_[rank].node, {}, false});
    nodes_[entry->second].ranks.push_back(static_cast<int>(rank));
    node_of_[rank] = entry->second;
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    std::vector<std::vector<int>> by_node;
    for (const int rank : peers_.members(group)) {
      const int before = by_node.empty() ? -1 : by_node.back().back();
      if (before < 0 ||
          node_of_[static_cast<size_t>(before)] != node_of_[static_cast<size_t>(rank)]) {
        by_node.emplace_back();
      }
      by_node.back().push_back(rank);
    }
    pasts_.emplace_back(std::move(by_node), options.min_slowdown);
  }
}

void JobWatch::AddRow(int64_t step, absl::Span<const StepCell> cells, int64_t row,
                      std::vector<Verdict>& verdicts) {
  work_exponent_.BeginRow();
  times_.Set(cells, slow_, work_exponent_.value());
  Measure(cells);
  WatchGroups(step, verdicts);
  WatchRanks(own_, step, row, verdicts);
  WatchRanks(data_, step, row, verdicts);
}

RankStatus JobWatch::status(int rank) const {
  if (IsPersistent(rank)) return RankStatus::kPersistent;
  if (slow_[static_cast<size_t>(rank)]) return RankStatus::kSuspect;
  return peers_.has_peers(rank) ? RankStatus::kHealthy : RankStatus::kTooFewPeers;
}

void JobWatch::Measure(absl::Span<const StepCell> cells) {
  own_.Measure(peers_, times_.own());
  for (size_t group = 0; group < groups_.size(); ++group) {
    pasts_[group].Update(times_.own(), times_.quantity());
    if (!pasts_[group].in_doubt()) continue;
    for (const int rank : peers_.members(group)) own_.SetUnusual(rank);
  }
  own_.Learn();
  imbalance_.BeginRow();
  for (size_t group = 0; group < groups_.size(); ++group) {
    group_typical_[group] = peers_.GroupMedian(group, times_.own());
    const double forward = peers_.GroupMedian(group, times_.forward());
    const double backward = peers_.GroupMedian(group, times_.backward());
    for (const int rank : peers_.members(group)) {
      const auto r = static_cast<size_t>(rank);
      if (!cells[r].present) continue;
      forward_[r] = times_.forward()[r] - forward;
      backward_[r] = times_.backward()[r] - backward;
      if (!slow_[r]) imbalance_.Add(forward_[r], backward_[r]);
    }
    if (times_.normalised()) LearnWork(group);
  }
  MeasureData();
}

void JobWatch::LearnWork(size_t group) {
  const double typical = peers_.GroupMedian(group, times_.work());
  for (const int rank : peers_.members(group)) {
    const auto r = static_cast<size_t>(rank);
    if (slow_[r]) continue;
    work_exponent_.Add(times_.work()[r] - typical, times_.own()[r] - group_typical_[group]);
  }
}

// Ranks that never wait for data have no residuals here, and cost nothing.
void JobWatch::MeasureData() {
  if (!times_.waited()) {
    data_.Skip();
    return;
  }
  data_.Measure(peers_, times_.data_wait_s());
  for (size_t group = 0; group < groups_.size(); ++group) {
    const double own_s = peers_.GroupMedian(group, times_.own_s());
    for (const int rank : peers_.members(group)) {
      double& residual = data_.residuals()[static_cast<size_t>(rank)];
      residual = std::log1p(std::max(residual / own_s, kLeastDataResidual));
    }
  }
  data_.Learn();
}

void JobWatch::WatchGroups(int64_t step, std::vector<Verdict>& verdicts) {
  scratch_ = group_typical_;
  const auto known = std::remove_if(scratch_.begin(), scratch_.end(),
                                    [](double typical) { return std::isnan(typical); });
  const auto count = static_cast<size_t>(known - scratch_.begin());
  const double of_groups = count < 2 ? kNone : MedianOf(absl::MakeSpan(scratch_).subspan(0, count));
  for (size_t group = 0; group < groups_.size(); ++group) {
    GroupRow row;
    row.step = step;
    row.typical = group_typical_[group];
    // The median of two lies half-way to the other.
    row.of_groups = count == 2 ? 2 * of_groups - group_typical_[group] : of_groups;
    row.quantity = times_.quantity();
    row.ranks = static_cast<int>(peers_.members(group).size());
    if (slow_ranks_ > 0) CountSlow(group, row);
    const GroupWatch::Event event = groups_[group].Update(row);
    // Then one of the group's nodes is to blame, not the job.
    const bool of_node = event != GroupWatch::Event::kUneven && pasts_[group].any_slow();
    if (event == GroupWatch::Event::kNone || of_node) continue;
    Verdict verdict;
    verdict.kind = VerdictKind::kGroup;
    verdict.peer_group = peers_.groups()[group];
    verdict.step = step;
    verdict.since_step = groups_[group].since_step();
    verdict.slowdown = groups_[group].slowdown();
    verdict.slowdown_low = groups_[group].slowdown_low();
    verdict.slowdown_high = groups_[group].slowdown_high();
    verdict.lost_share = 1 - 1 / verdict.slowdown;
    verdict.cause =
        event == GroupWatch::Event::kUneven ? StragglerCause::kImbalance : StragglerCause::kCompute;
    verdicts.push_back(verdict);
  }
}

void JobWatch::CountSlow(size_t group, GroupRow& row) const {
  for (const int rank : peers_.members(group)) {
    if (!slow_[static_cast<size_t>(rank)]) continue;
    ++row.slow;
    const Channel& channel = own_.is_slow(rank) ? own_ : data_;
    const SlowdownEstimate& estimate = channel.watch(rank).estimate();
    row.slow_excess += std::log(estimate.slowdown);
    row.slow_low += std::log(estimate.low);
    row.slow_high += std::log(estimate.high);
  }
  if (row.slow == 0) return;
  row.slow_excess /= row.slow;
  row.slow_low /= row.slow;
  row.slow_high /= row.slow;
}

void JobWatch::WatchRanks(Channel& channel, int64_t step, int64_t row,
                          std::vector<Verdict>& verdicts) {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!channel.has_residual(rank)) continue;
    const auto r = static_cast<size_t>(rank);
    WatchRow watched;
    watched.step = step;
    watched.forward = &channel == &own_ ? forward_[r] : kNone;
    watched.backward = &channel == &own_ ? backward_[r] : kNone;
    watched.lost_s = times_.LostTo(rank);
    watched.job_s = times_.job_s();
    watched.tick = times_.tick_s() / times_.own_s()[r];
    const bool held = groups_[group_of_[r]].held();
    const bool of_node = pasts_[group_of_[r]].IsSlow(rank);
    watched.held = held && !(of_node && &channel == &own_);
    const RankWatch::Change change = channel.Update(rank, watched);
    if (change != RankWatch::Change::kNone) {
      TakeChange(channel, rank, change, step, row, verdicts);
    }
    if (slow_[r] && (held || of_node)) history_.SetShared(rank, !of_node);
  }
}

void JobWatch::TakeChange(Channel& channel, int rank, RankWatch::Change change, int64_t step,
                          int64_t row, std::vector<Verdict>& verdicts) {
  const auto r = static_cast<size_t>(rank);
  const bool was_slow = slow_[r];
  slow_[r] = own_.is_slow(rank) || data_.is_slow(rank);
  slow_ranks_ += (slow_[r] ? 1 : 0) - (was_slow ? 1 : 0);
  if (slow_[r] && !was_slow) history_.Begin(rank, row);
  if (!slow_[r] && was_slow) history_.End(rank, row);
  if (change == RankWatch::Change::kSuspect && history_.IsRecurrent(rank, row)) {
    channel.SetRecurrent(rank);
  }
  lasting_[r] = lasting_[r] || change == RankWatch::Change::kPersistent;
  const bool ends =
      change == RankWatch::Change::kTransient || change == RankWatch::Change::kRecovered;
  if (!ends || !slow_[r]) {
    verdicts.push_back(MakeVerdict(channel, rank, step, row));
    verdicts.back().kind = KindOf(change, lasting_[r]);
  }
  lasting_[r] = lasting_[r] && slow_[r];
  RollUp(nodes_[node_of_[r]], step, row, verdicts);
}

// Counts several slow ranks of a node as one trouble.
void JobWatch::RollUp(NodeState& node, int64_t step, int64_t row, std::vector<Verdict>& verdicts) {
  int slow = 0;
  int persistent = 0;
  Verdict verdict;
  for (const int rank : node.ranks) {
    if (!slow_[static_cast<size_t>(rank)]) continue;
    ++slow;
    if (!IsPersistent(rank)) continue;
    ++persistent;
    const Verdict of_rank = MakeVerdict(own_.is_slow(rank) ? own_ : data_, rank, step, row);
    if (persistent == 1 || of_rank.slowdown > verdict.slowdown) {
      const int64_t since = persistent == 1 ? of_rank.since_step : verdict.since_step;
      const int group = persistent == 1 ? of_rank.peer_group : verdict.peer_group;
      verdict = of_rank;
      verdict.since_step = std::min(since, of_rank.since_step);
      verdict.peer_group = group == of_rank.peer_group ? group : -1;
    } else {
      verdict.since_step = std::min(verdict.since_step, of_rank.since_step);
      if (verdict.peer_group != of_rank.peer_group) verdict.peer_group = -1;
    }
  }
  if (slow < kNodeRanks) node.reported = false;
  if (node.reported || persistent < kNodeRanks) return;
  node.reported = true;
  verdict.kind = VerdictKind::kNode;
  verdict.rank = -1;
  verdicts.push_back(verdict);
}

StragglerCause JobWatch::CauseOf(const Channel& channel, int rank) const {
  if (&channel == &data_) return StragglerCause::kData;
  const RankWatch& watch = channel.watch(rank);
  // False if either is not known.
  if (watch.forward() > options_.min_slowdown / 2 &&
      watch.backward() < kHostOnly * watch.forward()) {
    return StragglerCause::kHostPause;
  }
  const bool certain = std::log(watch.estimate().low) > options_.min_slowdown / 2;
  return !times_.normalised() && imbalance_.holds() && !certain ? StragglerCause::kImbalance
                                                                : StragglerCause::kCompute;
}

Verdict JobWatch::MakeVerdict(const Channel& channel, int rank, int64_t step, int64_t row) const {
  const RankWatch& watch = channel.watch(rank);
  const DetectorRank& where = ranks_[static_cast<size_t>(rank)];
  Verdict verdict;
  verdict.rank = rank;
  verdict.node = where.node;
  verdict.peer_group = where.peer_group;
  verdict.step = step;
  verdict.since_step = watch.since_step();
  verdict.slowdown = watch.estimate().slowdown;
  verdict.slowdown_low = watch.estimate().low;
  verdict.slowdown_high = watch.estimate().high;
  verdict.cause = CauseOf(channel, rank);
  verdict.lost_share = watch.lost_share();
  verdict.episodes = history_.episodes(rank, row);
  return verdict;
}

bool JobWatch::IsPersistent(int rank) const {
  return own_.watch(rank).state() == RankWatch::State::kPersistent ||
         data_.watch(rank).state() == RankWatch::State::kPersistent;
}

}  // namespace paceline
