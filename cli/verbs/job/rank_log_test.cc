#include "cli/verbs/job/rank_log.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LineSplitterTest, JoinsLinesThatWereCutInBetween) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("step 1\nst"), ElementsAre("step 1"));
  EXPECT_THAT(splitter.Add("ep 2"), IsEmpty());
  EXPECT_THAT(splitter.Add("\n\nrest"), ElementsAre("step 2", ""));
  EXPECT_EQ(splitter.Rest(), "rest");
  EXPECT_EQ(splitter.Rest(), "");
}

TEST(LineSplitterTest, LineWithoutEndIsCutInsteadOfKeptForEver) {
  LineSplitter splitter;
  EXPECT_EQ(splitter.Add(std::string(200'000, 'x')).size(), 3u);
}

TEST(LineSplitterTest, OfALineThatIsWrittenOverTheLastStays) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("\r 10%\r 20%"), IsEmpty());
  EXPECT_EQ(splitter.Draft(), " 20%");
  EXPECT_THAT(splitter.Add("\r 30%\nend\r\n"), ElementsAre(" 30%", "end"));
  EXPECT_EQ(splitter.Draft(), "");
  EXPECT_THAT(splitter.Add("10%\r20%\r"), IsEmpty());
  EXPECT_EQ(splitter.Draft(), "20%");
  EXPECT_THAT(splitter.Add("30%\r"), IsEmpty());
  EXPECT_EQ(splitter.Draft(), "30%");
  EXPECT_EQ(splitter.Rest(), "30%");
  EXPECT_THAT(splitter.Add("plain"), IsEmpty());
  EXPECT_EQ(splitter.Draft(), "") << "it may be anything";
  EXPECT_THAT(splitter.Add("\r\r\r\n"), ElementsAre("plain"));
}

TEST(LineSplitterTest, AMegabyteOfUpdatesIsOneLine) {
  LineSplitter splitter;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_THAT(splitter.Add(absl::StrCat("\r", i, std::string(100, '.'))), IsEmpty());
  }
  EXPECT_THAT(splitter.Add("\rdone\n"), ElementsAre("done"));
}

TEST(ParseRanksTest, ReadsNumbersAndRanges) {
  EXPECT_THAT(ParseRanks("2"), ElementsAre(2));
  EXPECT_THAT(ParseRanks("0,3-5,4"), ElementsAre(0, 3, 4, 5));
}

TEST(ParseRanksTest, AnythingElseIsNoList) {
  for (const char* text : {"", "a", "1,", "3-1", "1-2-3", "-1", "0-99999999"}) {
    EXPECT_THAT(ParseRanks(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace paceline
