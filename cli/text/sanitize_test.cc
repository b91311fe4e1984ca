#include "cli/text/sanitize.h"

#include <string>

#include "cli/text/reported_once.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(SanitizeTest, KeepsPlainAndInternationalText) {
  EXPECT_EQ(Sanitize("step 5\tloss 0.1\nZürich 東京"), "step 5\tloss 0.1\nZürich 東京");
}

TEST(SanitizeTest, ShowsEscapeSequencesInsteadOfObeyingThem) {
  EXPECT_EQ(Sanitize("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
}

TEST(SanitizeTest, ShowsEightBitControlsInBothEncodings) {
  EXPECT_EQ(Sanitize("\xc2\x9b"
                     "31m"),
            "\\x9b31m");
  EXPECT_EQ(Sanitize("\x9b"
                     "31m"),
            "\\x9b31m");
}

TEST(SanitizeTest, CarriageReturnCannotOverwriteALine) {
  EXPECT_EQ(Sanitize("good\rbad"), "good\\x0dbad");
  EXPECT_EQ(Sanitize("windows\r\n"), "windows\n");
}

TEST(SanitizeTest, ShowsMarksThatReorderText) {
  EXPECT_EQ(Sanitize("a\xe2\x80\xae"
                     "b"),
            "a\\u202eb");
  EXPECT_EQ(Sanitize("a\xd8\x9c"
                     "b"),
            "a\\u061cb");
}

TEST(SanitizeTest, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(Sanitize("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(Sanitize("cut \xe6\x9d"), "cut \\xe6\\x9d");
  EXPECT_EQ(Sanitize("\xed\xa0\x80"), "\\xed\\xa0\\x80");
}

TEST(SanitizeTest, LineHasNoNewlines) { EXPECT_EQ(SanitizeLine("a\nb\tc"), "a b c"); }

TEST(DisplayWidthTest, CountsCodePointsAndNoColours) {
  EXPECT_EQ(DisplayWidth("Zürich"), 6);
  EXPECT_EQ(DisplayWidth("\x1b[31mred\x1b[0m"), 3);
}

TEST(ShortenedTest, CutsAtCodePointsAndMarksTheCut) {
  EXPECT_EQ(Shortened("fits", 4), "fits");
  EXPECT_EQ(Shortened("Zürich by the lake", 9), "Zürich...");
  EXPECT_EQ(Shortened("üüüü", 3), "üüü");
}

TEST(ReportedOnceTest, ALongTextIsCutWhenItWasTold) {
  const std::string cause =
      "the disk of node w1 is full: 0 B of 4.0 TiB are free, and the checkpoint needs 12.5 GiB; "
      "remove what is not needed";
  ReportedOnce reported;
  EXPECT_EQ(reported.Tell("rank 1: " + cause), "rank 1: " + cause);
  EXPECT_EQ(reported.Tell("it ended: " + cause + "; starts again"),
            "it ended: the disk of node w1 is full: 0 B of...; starts again");
  // Text that is new or short is not cut.
  EXPECT_EQ(reported.Tell("waits for 2 slots"), "waits for 2 slots");
  EXPECT_EQ(reported.Tell("waits for 2 slots"), "waits for 2 slots");
  const std::string other(200, 'x');
  EXPECT_EQ(reported.Tell(other), other);
}

}  // namespace
}  // namespace paceline
