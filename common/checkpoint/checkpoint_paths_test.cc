#include "common/checkpoint/checkpoint_paths.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(CheckpointPathsTest, NamesAreAsDocumented) {
  EXPECT_EQ(ShardName(0, 4), "shard-00000-of-00004.safetensors");
  EXPECT_EQ(PartName(3), "part-00003.json");
}

TEST(CheckpointPathsTest, NamesSortByRank) {
  EXPECT_LT(ShardName(9, 12), ShardName(10, 12));
  EXPECT_LT(PartName(9), PartName(10));
}

}  // namespace
}  // namespace paceline
