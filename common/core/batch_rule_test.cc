#include "common/core/batch_rule.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline {
namespace {

TEST(BatchRuleTest, AllRanksHaveWhatTheSpecSays) {
  for (const BatchRule rule : {BatchRule::kKeepGlobal, BatchRule::kKeepRank}) {
    EXPECT_EQ(BatchFor(rule, 4, {32, 3}, 4), (RankBatch{32, 3}));
  }
}

TEST(BatchRuleTest, GlobalBatchIsKeptExactly) {
  for (int full_ranks = 1; full_ranks <= 12; ++full_ranks) {
    for (int ranks = 1; ranks <= full_ranks; ++ranks) {
      const auto batch = BatchFor(BatchRule::kKeepGlobal, full_ranks, {24, 2}, ranks);
      const int global = full_ranks * 24 * 2;
      ASSERT_EQ(batch.has_value(), global % ranks == 0) << full_ranks << " to " << ranks;
      if (!batch.has_value()) continue;
      EXPECT_EQ(ranks * batch->samples * batch->passes, global) << full_ranks << " to " << ranks;
      EXPECT_LE(batch->samples, 24) << "a rank's memory holds no more";
    }
  }
}

TEST(BatchRuleTest, PassesAreAsFewAsPossible) {
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 4, {32, 1}, 2), (RankBatch{32, 2}));
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 3, {32, 1}, 2), (RankBatch{24, 2}));
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 3, {34, 1}, 2), (RankBatch{17, 3}));
}

TEST(BatchRuleTest, ShareThatIsNoWholeNumberIsImpossible) {
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 4, {32, 1}, 3), std::nullopt);
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepGlobal, 4, {32, 1}, 3), 2);
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepGlobal, 4, {32, 1}, 4), 4);
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepGlobal, 4, {32, 1}, 9), 4);
}

TEST(BatchRuleTest, RankBatchIsKeptWithAnyNumberOfRanks) {
  EXPECT_EQ(BatchFor(BatchRule::kKeepRank, 4, {32, 1}, 3), (RankBatch{32, 1}));
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepRank, 4, {32, 1}, 3), 3);
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepRank, 4, {32, 1}, 0), 0);
}

TEST(BatchRuleTest, WholeReplicasShareTheBatch) {
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepRank, 8, {32, 1}, 7, /*least=*/1, /*unit=*/4), 4);
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepRank, 8, {32, 1}, 3, /*least=*/1, /*unit=*/4), 0);
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepGlobal, 6, {4, 1}, 5, /*least=*/1, /*unit=*/2), 4);
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepGlobal, 6, {3, 1}, 5, /*least=*/1, /*unit=*/2), 2)
      << "18 samples cannot be shared by 4 ranks";
}

TEST(BatchRuleTest, PossibleNumbersAreTheGreatestMultiplesThatShareTheBatch) {
  for (const BatchRule rule : {BatchRule::kKeepGlobal, BatchRule::kKeepRank}) {
    for (int unit = 1; unit <= 4; ++unit) {
      const int full_ranks = 3 * unit;
      for (int available = -1; available <= full_ranks + 1; ++available) {
        int expected = 0;
        for (int ranks = unit; ranks <= std::min(available, full_ranks); ranks += unit) {
          if (BatchFor(rule, full_ranks, {5, 2}, ranks).has_value()) expected = ranks;
        }
        EXPECT_EQ(PossibleRanks(rule, full_ranks, {5, 2}, available, /*least=*/1, unit), expected)
            << unit << ": " << available;
      }
    }
  }
}

TEST(BatchRuleTest, MoreRanksThanTheSpecHasShareTheBatchAsFewerDo) {
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 2, {32, 1}, 4), (RankBatch{16, 1}));
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 2, {32, 3}, 3), (RankBatch{32, 2}));
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 2, {2, 1}, 5), std::nullopt);
  EXPECT_EQ(BatchFor(BatchRule::kKeepRank, 2, {32, 1}, 5), (RankBatch{32, 1}));
  for (const BatchRule rule : {BatchRule::kKeepGlobal, BatchRule::kKeepRank}) {
    for (int unit = 1; unit <= 2; ++unit) {
      const int full_ranks = 2 * unit;
      for (int most = full_ranks; most <= 6 * unit; ++most) {
        for (int available = 0; available <= 7 * unit; ++available) {
          int expected = 0;
          for (int ranks = unit; ranks <= std::min(available, most); ranks += unit) {
            if (BatchFor(rule, full_ranks, {6, 1}, ranks).has_value()) expected = ranks;
          }
          EXPECT_EQ(PossibleRanks(rule, full_ranks, {6, 1}, available, /*least=*/1, unit, most),
                    expected)
              << unit << ": " << available << " up to " << most;
        }
      }
    }
  }
}

// BatchNorm cannot normalise over a single sample.
TEST(BatchRuleTest, NoPassGetsFewerSamplesThanTheModelNeeds) {
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 3, {2, 1}, 2, /*least=*/1), (RankBatch{1, 3}));
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 3, {2, 1}, 2, /*least=*/2), std::nullopt);
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 3, {2, 1}, 1, /*least=*/2), (RankBatch{2, 3}));
  EXPECT_EQ(PossibleRanks(BatchRule::kKeepGlobal, 3, {2, 1}, 2, /*least=*/2), 1);
  EXPECT_EQ(BatchFor(BatchRule::kKeepGlobal, 3, {1, 1}, 1, /*least=*/2), (RankBatch{1, 3}))
      << "it had one before";
  EXPECT_EQ(BatchFor(BatchRule::kKeepRank, 3, {2, 1}, 2, /*least=*/2), (RankBatch{2, 1}));
}

}  // namespace
}  // namespace paceline
