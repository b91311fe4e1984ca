#include "cli/text/table.h"

#include "gtest/gtest.h"

namespace paceline {
namespace {

Table Jobs() {
  Table table({{"NAME"}, {"STEP", true}, {"REASON"}});
  table.Add({"digits", "5", "waits for 2 slots on any node"});
  table.Add({"a", "1200", ""});
  return table;
}

TEST(TableTest, AlignsColumns) {
  EXPECT_EQ(Jobs().Rendered(0, false),
            "NAME    STEP  REASON\n"
            "digits     5  waits for 2 slots on any node\n"
            "a       1200  -\n");
}

TEST(TableTest, ShortensOnlyTheLastColumn) {
  EXPECT_EQ(Jobs().Rendered(28, false),
            "NAME    STEP  REASON\n"
            "digits     5  waits for 2...\n"
            "a       1200  -\n");
}

TEST(TableTest, HeadingsCanBeLeftOut) {
  EXPECT_EQ(Jobs().Rendered(0, false, /*headings=*/false),
            "digits     5  waits for 2 slots on any node\n"
            "a       1200  -\n");
}

TEST(TableTest, LeavesSpareColumnsOutBeforeItCutsTheLast) {
  Table table({{"A"}, {"B", true, true}, {"C", true, true}, {"WHY"}});
  table.Add({"aaaa", "bbbb", "cccc", "because"});
  EXPECT_EQ(table.Rendered(25, false), "A        B     C  WHY\naaaa  bbbb  cccc  because\n");
  EXPECT_EQ(table.Rendered(24, false), "A        B  WHY\naaaa  bbbb  because\n");
  EXPECT_EQ(table.Rendered(13, false), "A     WHY\naaaa  because\n");
}

TEST(TableTest, CellsCannotSteerTheTerminal) {
  Table table({{"A"}});
  table.Add({"x\x1b[2J\ny"});
  EXPECT_EQ(table.Rendered(0, false), "A\nx\\x1b[2J y\n");
}

TEST(TableTest, ColoursDoNotShiftColumns) {
  Table table({{"STATE"}, {"N"}});
  table.Add({{"OK", Colour::kGreen}, "1"});
  EXPECT_EQ(table.Rendered(0, true),
            "\x1b[1mSTATE\x1b[0m  \x1b[1mN\x1b[0m\n\x1b[32mOK\x1b[0m     1\n");
}

}  // namespace
}  // namespace paceline
