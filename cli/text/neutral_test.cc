#include "cli/text/neutral.h"

#include <string>

#include "cli/text/told_once.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(NeutralTest, KeepsPlainAndInternationalText) {
  EXPECT_EQ(Neutral("step 5\tloss 0.1\nZürich 東京"), "step 5\tloss 0.1\nZürich 東京");
}

TEST(NeutralTest, ShowsEscapeSequencesInsteadOfObeyingThem) {
  EXPECT_EQ(Neutral("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
}

TEST(NeutralTest, ShowsEightBitControlsInBothEncodings) {
  EXPECT_EQ(Neutral("\xc2\x9b"
                    "31m"),
            "\\x9b31m");
  EXPECT_EQ(Neutral("\x9b"
                    "31m"),
            "\\x9b31m");
}

TEST(NeutralTest, CarriageReturnCannotOverwriteALine) {
  EXPECT_EQ(Neutral("good\rbad"), "good\\x0dbad");
  EXPECT_EQ(Neutral("windows\r\n"), "windows\n");
}

TEST(NeutralTest, ShowsMarksThatReorderText) {
  EXPECT_EQ(Neutral("a\xe2\x80\xae"
                    "b"),
            "a\\u202eb");
  EXPECT_EQ(Neutral("a\xd8\x9c"
                    "b"),
            "a\\u061cb");
}

TEST(NeutralTest, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(Neutral("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(Neutral("cut \xe6\x9d"), "cut \\xe6\\x9d");
  EXPECT_EQ(Neutral("\xed\xa0\x80"), "\\xed\\xa0\\x80");
}

TEST(NeutralTest, LineHasNoNewlines) { EXPECT_EQ(NeutralLine("a\nb\tc"), "a b c"); }

TEST(DisplayWidthTest, CountsCodePointsAndNoColours) {
  EXPECT_EQ(DisplayWidth("Zürich"), 6);
  EXPECT_EQ(DisplayWidth("\x1b[31mred\x1b[0m"), 3);
}

TEST(ShortenedTest, CutsAtCodePointsAndMarksTheCut) {
  EXPECT_EQ(Shortened("fits", 4), "fits");
  EXPECT_EQ(Shortened("Zürich by the lake", 9), "Zürich...");
  EXPECT_EQ(Shortened("üüüü", 3), "üüü");
}

TEST(ToldOnceTest, ALongTextIsCutWhenItWasTold) {
  const std::string cause =
      "the disk of node w1 is full: 0 B of 4.0 TiB are free, and the checkpoint needs 12.5 GiB; "
      "remove what is not needed";
  ToldOnce told;
  EXPECT_EQ(told.Tell("rank 1: " + cause), "rank 1: " + cause);
  EXPECT_EQ(told.Tell("it ended: " + cause + "; starts again"),
            "it ended: the disk of node w1 is full: 0 B of...; starts again");
  // Nothing is cut that was not told, or is short.
  EXPECT_EQ(told.Tell("waits for 2 slots"), "waits for 2 slots");
  EXPECT_EQ(told.Tell("waits for 2 slots"), "waits for 2 slots");
  const std::string other(200, 'x');
  EXPECT_EQ(told.Tell(other), other);
}

}  // namespace
}  // namespace paceline
