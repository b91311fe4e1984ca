#include "common/core/checkpoint_key.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(CheckpointKeyTest, NamesSortByStepAndComeBack) {
  const CheckpointKey key{120, 2};
  EXPECT_EQ(CheckpointName(key), "step-000000000120.g2");
  EXPECT_EQ(ParseCheckpointName("step-000000000120.g2"), key);
  EXPECT_LT(CheckpointName({9, 1}), CheckpointName({10, 1}));
  EXPECT_EQ(ParseCheckpointName(CheckpointName({1234567890123, 34})),
            (CheckpointKey{1234567890123, 34}));
}

TEST(CheckpointKeyTest, WhatIsWrittenOtherwiseIsNoName) {
  for (const char* name : {"", "step-120.g2", "step-000000000120", "step-000000000120.g",
                           "step-000000000120.g0", "step-000000000120.g02", "step--00000000120.g2",
                           "step-00000000012x.g2", "removed-step-000000000120.g2",
                           "step-000000000120.g2/..", "step-00000000000000000000000000120.g2"}) {
    EXPECT_FALSE(ParseCheckpointName(name).has_value()) << name;
  }
}

TEST(CheckpointKeyTest, OrderIsByStepThenGeneration) {
  EXPECT_LT((CheckpointKey{5, 9}), (CheckpointKey{6, 1}));
  EXPECT_LT((CheckpointKey{5, 1}), (CheckpointKey{5, 2}));
}

}  // namespace
}  // namespace paceline
