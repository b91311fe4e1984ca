#include "cli/testing/shell_words.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(ShellWordsTest, ReadsTheFirstCommandWithoutQuotesAndComments) {
  EXPECT_THAT(ShellWords("a 'b c'  --x=\"d\"e  # f"), ElementsAre("a", "b c", "--x=de"));
  EXPECT_THAT(ShellWords("a b | c"), ElementsAre("a", "b"));
  EXPECT_THAT(ShellWords("a '' \"#1\""), ElementsAre("a", "", "#1"));
  EXPECT_THAT(ShellWords("a b#c"), ElementsAre("a", "b#c"));
}

TEST(PacelineLinesTest, FindsLinesInFencedBlocks) {
  EXPECT_THAT(PacelineLines("paceline no\n```\npaceline a\n$ paceline b \\\n  c\nother\n"
                            "paceline-gpu d\n```\n```text\npaceline no\n```\npaceline no\n"),
              ElementsAre("paceline a", "paceline b    c"));
}

TEST(PacelineMentionsTest, FindsCodeInTheText) {
  EXPECT_THAT(PacelineMentions("see `paceline a b` and `paceline`, `paceline c`\n"
                               "```\necho `paceline no`\n```\n`paceline-gpu` `paceline open\n"),
              ElementsAre("paceline a b", "paceline c"));
}

}  // namespace
}  // namespace paceline
