#include "worker/trainer/core/state_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace paceline {
namespace {

int64_t BytesOf(const std::vector<RowLayout>& tensors, const std::vector<RowRange>& part) {
  int64_t bytes = 0;
  for (const RowRange& range : part) bytes += range.rows * tensors[range.tensor].row_bytes;
  return bytes;
}

// Checks that every row of every tensor is covered exactly once, in order.
void ExpectCovered(const std::vector<RowLayout>& tensors, int ranks) {
  std::vector<int64_t> next(tensors.size(), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const RowRange& range : PartOfRank(tensors, rank, ranks)) {
      EXPECT_EQ(range.first_row, next[range.tensor]) << "tensor " << range.tensor;
      next[range.tensor] += range.rows;
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(next[i], tensors[i].rows) << i;
}

TEST(StatePartition, OneRankWritesAll) {
  const std::vector<RowLayout> tensors = {{3, 8}, {1, 4}};
  EXPECT_EQ(PartOfRank(tensors, 0, 1), (std::vector<RowRange>{{0, 0, 3}, {1, 0, 1}}));
}

TEST(StatePartition, CutsInTheMiddleOfATensor) {
  const std::vector<RowLayout> tensors = {{10, 4}};
  EXPECT_EQ(PartOfRank(tensors, 0, 2), (std::vector<RowRange>{{0, 0, 5}}));
  EXPECT_EQ(PartOfRank(tensors, 1, 2), (std::vector<RowRange>{{0, 5, 5}}));
}

TEST(StatePartition, ARowIsNeverCut) {
  const std::vector<RowLayout> tensors = {{1, 100}, {2, 10}};
  EXPECT_EQ(PartOfRank(tensors, 0, 2), (std::vector<RowRange>{{0, 0, 1}}));
  EXPECT_EQ(PartOfRank(tensors, 1, 2), (std::vector<RowRange>{{1, 0, 2}}));
}

TEST(StatePartition, MoreRanksThanRows) {
  const std::vector<RowLayout> tensors = {{1, 4}, {2, 4}};
  ExpectCovered(tensors, 8);
}

TEST(StatePartition, TensorsWithoutBytesAreRankZeros) {
  const std::vector<RowLayout> tensors = {{0, 4}, {4, 4}, {3, 0}};
  EXPECT_EQ(PartOfRank(tensors, 0, 2), (std::vector<RowRange>{{0, 0, 0}, {1, 0, 2}, {2, 0, 3}}));
  EXPECT_EQ(PartOfRank(tensors, 1, 2), (std::vector<RowRange>{{1, 2, 2}}));
  ExpectCovered({}, 2);
}

TEST(StatePartition, PartsAreEvenToOneRow) {
  for (unsigned round = 0; round < 200; ++round) {
    std::mt19937 random(round);
    std::vector<RowLayout> tensors(1 + random() % 20);
    int64_t largest_row = 0;
    for (RowLayout& tensor : tensors) {
      tensor = {static_cast<int64_t>(random() % 50), static_cast<int64_t>(random() % 300)};
      largest_row = std::max(largest_row, tensor.row_bytes);
    }
    const int ranks = 1 + static_cast<int>(random() % 9);
    ExpectCovered(tensors, ranks);
    int64_t total = 0;
    for (const RowLayout& tensor : tensors) total += tensor.rows * tensor.row_bytes;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_NEAR(static_cast<double>(BytesOf(tensors, PartOfRank(tensors, rank, ranks))),
                  static_cast<double>(total) / ranks, static_cast<double>(largest_row) + 1);
    }
  }
}

TEST(StatePartition, HugeSizesDoNotOverflow) {
  const std::vector<RowLayout> tensors = {{int64_t{1} << 40, 1 << 20}};
  ExpectCovered(tensors, 4096);
}

}  // namespace
}  // namespace paceline
