#include "common/core/ladder.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline {
namespace {

// Lengths of runs of ranks with the same value of `place`.
std::vector<int> Runs(const std::vector<RankHome>& homes, std::string RankHome::*place) {
  std::vector<int> runs;
  for (size_t rank = 0; rank < homes.size(); ++rank) {
    if (rank == 0 || homes[rank].*place != homes[rank - 1].*place) runs.push_back(0);
    ++runs.back();
  }
  return runs;
}

// The home of the replica of `shards` ranks that begins with rank `first`.
RankHome HomeOfReplica(const std::vector<RankHome>& homes, size_t first, size_t shards) {
  RankHome home = homes[first];
  // Nobody else's: names and labels do not begin with a line break.
  const std::string own = absl::StrCat("\nreplica ", first / shards);
  for (size_t rank = first + 1; rank < first + shards; ++rank) {
    if (homes[rank].node != homes[first].node) home.node = own;
    if (homes[rank].rack != homes[first].rack) home.rack = own;
  }
  return home;
}

}  // namespace

std::vector<RankHome> HomesOfReplicas(const std::vector<RankHome>& homes, int shards) {
  if (shards == 1) return homes;
  const size_t size = static_cast<size_t>(shards);
  std::vector<RankHome> replicas;
  replicas.reserve(homes.size() / size);
  for (size_t first = 0; first + size <= homes.size(); first += size) {
    replicas.push_back(HomeOfReplica(homes, first, size));
  }
  return replicas;
}

std::string DescribeLadder(const Ladder& ladder) {
  if (ladder.empty()) return "synchronous";
  return absl::StrJoin(ladder, ",", [](std::string* out, const LadderLevel& level) {
    absl::StrAppend(out, level.period, ":");
    switch (level.scope) {
      case LadderScope::kSize:
        absl::StrAppend(out, level.size);
        return;
      case LadderScope::kNode:
        absl::StrAppend(out, "node");
        return;
      case LadderScope::kRack:
        absl::StrAppend(out, "rack");
        return;
      case LadderScope::kAll:
        absl::StrAppend(out, "all");
        return;
    }
  });
}

std::vector<int> LadderGroups(LadderScope scope, int size, const std::vector<RankHome>& homes) {
  const int ranks = static_cast<int>(homes.size());
  switch (scope) {
    case LadderScope::kSize: {
      std::vector<int> groups(static_cast<size_t>(ranks / size), size);
      if (ranks % size > 0) groups.push_back(ranks % size);
      return groups;
    }
    case LadderScope::kNode:
      return Runs(homes, &RankHome::node);
    case LadderScope::kRack:
      return Runs(homes, &RankHome::rack);
    case LadderScope::kAll:
      break;
  }
  return {ranks};
}

}  // namespace paceline
