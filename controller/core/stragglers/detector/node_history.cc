#include "controller/core/stragglers/detector/node_history.h"

#include <algorithm>
#include <limits>

namespace paceline {
namespace {

constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();
constexpr double kRecurrentShare = 0.3;
// This many episodes more than recurrence_episodes are recurrence however short they are.
constexpr int kManyMore = 2;
// An episode that begins within this many rows after an interruption goes on.
constexpr int64_t kInterruptionRows = 30;

}  // namespace

void NodeHistory::Place(absl::Span<const DetectorRank> ranks, int64_t row) {
  for (PlaceHistory& place : places_) {
    for (Episode& episode : place.last) {
      if (episode.end != kOpen) continue;
      episode.end = row;
      episode.interrupted = true;
    }
  }
  absl::flat_hash_map<int, int> on_node;
  of_rank_.clear();
  for (const DetectorRank& rank : ranks) {
    const auto [entry, is_new] =
        index_.try_emplace(std::make_pair(rank.node, on_node[rank.node]++), places_.size());
    if (is_new) places_.emplace_back();
    of_rank_.push_back(entry->second);
  }
}

void NodeHistory::Begin(int rank, int64_t row) {
  PlaceHistory& place = at(rank);
  Episode& before = place.latest();
  if (before.interrupted && row - before.end <= kInterruptionRows) {
    before.end = kOpen;
    return;
  }
  ++place.count;
  place.latest() = {row, kOpen, false, false};
}

void NodeHistory::End(int rank, int64_t row) {
  Episode& latest = at(rank).latest();
  latest.end = row;
  latest.interrupted = false;
}

void NodeHistory::SetShared(int rank, bool shared) { at(rank).latest().shared = shared; }

int NodeHistory::episodes(int rank, int64_t row) const {
  const PlaceHistory& place = at(rank);
  const auto kept = static_cast<int>(std::min<int64_t>(place.count, kKept));
  return static_cast<int>(
      std::count_if(place.last.begin(), place.last.begin() + kept, [&](const Episode& episode) {
        return !episode.shared && row - episode.begin < recurrence_rows_;
      }));
}

bool NodeHistory::IsRecurrent(int rank, int64_t row) const {
  const PlaceHistory& place = at(rank);
  const auto kept = static_cast<int>(std::min<int64_t>(place.count, kKept));
  int count = 0;
  int64_t slow = 0;
  int64_t first = row;
  for (int i = 0; i < kept; ++i) {
    const Episode& episode = place.last[static_cast<size_t>(i)];
    if (episode.shared) continue;
    if (episode.interrupted && episode.end == kOpen && row - episode.begin >= persistent_rows_) {
      return true;
    }
    if (row - episode.begin >= recurrence_rows_) continue;
    ++count;
    first = std::min(first, episode.begin);
    slow += std::min(episode.end, row) - episode.begin;
  }
  if (count < recurrence_episodes_) return false;
  return count >= recurrence_episodes_ + kManyMore ||
         static_cast<double>(slow) >= kRecurrentShare * static_cast<double>(row - first);
}

}  // namespace paceline
