#include "bench/stragglers/csv_cells.h"

#include <gtest/gtest.h>

namespace paceline::detect {
namespace {

using Cells = std::vector<absl::string_view>;

TEST(CsvCellsTest, CellsAreFreeOfSpacesAndQuotes) {
  CsvCells cells;
  ASSERT_TRUE(cells.Cut(" a,b c , ,\"d\", \"e,f\" ,\"say \"\"g\"\"\",\r", ','));
  EXPECT_EQ(cells.cells(), (Cells{"a", "b c", "", "d", "e,f", "say \"g\"", ""}));
  ASSERT_TRUE(cells.Cut("1\t\t2\t\t", '\t'));
  EXPECT_EQ(cells.cells(), (Cells{"1", "", "2", "", ""}));
  ASSERT_TRUE(cells.Cut("", ','));
  EXPECT_EQ(cells.cells(), (Cells{""}));
  ASSERT_TRUE(cells.Cut("\"\"", ','));
  EXPECT_EQ(cells.cells(), (Cells{""}));
}

TEST(CsvCellsTest, QuotesHaveToBeClosed) {
  CsvCells cells;
  EXPECT_FALSE(cells.Cut("a,\"b,c", ','));
  EXPECT_FALSE(cells.Cut("\"a\"b,c", ','));
  EXPECT_FALSE(cells.Cut("\"a\"\"", ','));
  EXPECT_TRUE(cells.Cut("a\"b,c", ','));
}

TEST(CsvCellsTest, TheMostFrequentSeparatorCounts) {
  EXPECT_EQ(SeparatorOf("step,dp"), ',');
  EXPECT_EQ(SeparatorOf("step;dp;\"a,b,c,d\""), ';');
  EXPECT_EQ(SeparatorOf("step\tdp"), '\t');
  EXPECT_EQ(SeparatorOf("step"), ',');
}

}  // namespace
}  // namespace paceline::detect
