#include "worker/trainer/core/row_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Counts(int64_t rows, int64_t shards) {
  std::vector<int64_t> counts;
  for (int64_t position = 0; position < shards; ++position) {
    counts.push_back(RowsOf(rows, shards, position).count);
  }
  return counts;
}

// What torch.chunk gives; it leaves empty chunks out.
TEST(RowShardTest, TheLastShardsAreShorterOrEmpty) {
  EXPECT_THAT(Counts(97, 2), ElementsAre(49, 48));
  EXPECT_THAT(Counts(51, 2), ElementsAre(26, 25));
  EXPECT_THAT(Counts(5, 4), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(Counts(1, 3), ElementsAre(1, 0, 0));
  EXPECT_THAT(Counts(6, 3), ElementsAre(2, 2, 2));
}

TEST(RowShardTest, EachRowHasOneShardAndNoneIsLargerThanTheFirst) {
  for (int64_t rows = 0; rows < 40; ++rows) {
    for (int64_t shards = 1; shards < 12; ++shards) {
      int64_t next = 0;
      for (int64_t position = 0; position < shards; ++position) {
        const RowShard shard = RowsOf(rows, shards, position);
        ASSERT_EQ(shard.begin, next);
        ASSERT_GE(shard.count, 0);
        ASSERT_LE(shard.count, RowsPerShard(rows, shards));
        next += shard.count;
      }
      ASSERT_EQ(next, rows);
      ASSERT_EQ(RowsOf(rows, shards, 0).count, RowsPerShard(rows, shards));
    }
  }
}

}  // namespace
}  // namespace paceline
