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

}  // namespace

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
    case LadderScope::kSize:
      return std::vector<int>(static_cast<size_t>(ranks / size), size);
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
