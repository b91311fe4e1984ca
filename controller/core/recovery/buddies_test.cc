#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/copies.h"

namespace paceline {
namespace {

int CountElsewhere(const std::vector<NodeName>& nodes, const std::vector<int>& buddies) {
  int elsewhere = 0;
  for (size_t r = 0; r < nodes.size(); ++r) {
    elsewhere += nodes[static_cast<size_t>(buddies[r])] != nodes[r] ? 1 : 0;
  }
  return elsewhere;
}

// Of all ways to give each rank another one, the most with which ranks have theirs elsewhere.
int MostElsewhere(const std::vector<NodeName>& nodes) {
  std::vector<int> buddies(nodes.size());
  std::iota(buddies.begin(), buddies.end(), 0);
  int most = 0;
  do {
    bool own = false;
    for (size_t r = 0; r < buddies.size(); ++r) own = own || buddies[r] == static_cast<int>(r);
    if (!own) most = std::max(most, CountElsewhere(nodes, buddies));
  } while (std::next_permutation(buddies.begin(), buddies.end()));
  return most;
}

TEST(BuddiesTest, EachIsOneOthersAndOnAnotherNodeWhereverThatIsPossible) {
  constexpr int kNodes = 3;
  for (size_t ranks = 2; ranks <= 6; ++ranks) {
    int ways = 1;
    for (size_t r = 0; r < ranks; ++r) ways *= kNodes;
    for (int way = 0; way < ways; ++way) {
      std::vector<NodeName> nodes;
      for (int rest = way; nodes.size() < ranks; rest /= kNodes) {
        nodes.emplace_back(absl::StrCat("n", rest % kNodes));
      }
      const std::vector<int> buddies = BuddiesOf(nodes);
      std::vector<int> sorted = buddies;
      std::sort(sorted.begin(), sorted.end());
      for (size_t r = 0; r < ranks; ++r) {
        EXPECT_EQ(sorted[r], static_cast<int>(r)) << "one has two wards";
        EXPECT_NE(buddies[r], static_cast<int>(r)) << "one is its own buddy";
      }
      EXPECT_EQ(CountElsewhere(nodes, buddies), MostElsewhere(nodes)) << ranks << "/" << way;
    }
  }
}

TEST(BuddiesTest, ARankAloneHasNone) {
  EXPECT_EQ(BuddiesOf({NodeName("a")}), std::vector<int>{-1});
}

}  // namespace
}  // namespace paceline
