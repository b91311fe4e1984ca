#include "worker/daemon/core/standby_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(StandbyAnswersTest, TheOldestQuestionCounts) {
  StandbyAnswers answers({"a", "b", "c"});
  EXPECT_EQ(answers.size(), 3);
  answers.NobodyLeads("b", At(11));
  answers.NobodyLeads("a", At(10));
  EXPECT_EQ(answers.LeadsSince(), absl::InfinitePast()) << "c may lead";
  answers.NobodyLeads("c", At(12));
  EXPECT_EQ(answers.LeadsSince(), At(10));
  answers.NobodyLeads("a", At(13));
  EXPECT_EQ(answers.LeadsSince(), At(11));
}

TEST(StandbyAnswersTest, OneThatIsSilentHoldsAllBack) {
  StandbyAnswers answers({"a", "b"});
  for (const char* address : {"a", "b"}) answers.NobodyLeads(address, At(10));
  for (const int time : {20, 30, 40}) answers.NobodyLeads("b", At(time));
  EXPECT_EQ(answers.LeadsSince(), At(10));
  EXPECT_THAT(answers.MayLead(At(10)), ElementsAre("a"));
  EXPECT_THAT(answers.MayLead(At(9)), IsEmpty());
  EXPECT_THAT(answers.MayLead(At(40)), ElementsAre("a", "b"));
}

TEST(StandbyAnswersTest, AnswersToEarlierQuestionsTakeNothingBack) {
  StandbyAnswers answers({"a", "b"});
  for (const char* address : {"a", "b"}) answers.NobodyLeads(address, At(10));
  answers.NobodyLeads("a", At(5));
  EXPECT_EQ(answers.LeadsSince(), At(10));
}

TEST(StandbyAnswersTest, WhoIsNotAmongTheControllersDoesNotStandForOne) {
  StandbyAnswers answers({"a", "b"});
  answers.NobodyLeads("a", At(10));
  answers.NobodyLeads("x", At(11));
  EXPECT_EQ(answers.LeadsSince(), absl::InfinitePast());
  EXPECT_THAT(answers.MayLead(At(10)), ElementsAre("a", "b"));
}

TEST(StandbyAnswersTest, ALeaderThatIsNotAmongTheControllersIsAWordOfMore) {
  StandbyAnswers answers({"a", "b"});
  EXPECT_FALSE(answers.Named("b"));
  for (const char* address : {"a", "b"}) answers.NobodyLeads(address, At(10));
  EXPECT_EQ(answers.LeadsSince(), At(10)) << "b did lead once";
  EXPECT_TRUE(answers.Named("c"));
  EXPECT_FALSE(answers.Named("c")) << "it is reported once";
  for (const char* address : {"a", "b", "c"}) answers.NobodyLeads(address, At(20));
  EXPECT_EQ(answers.LeadsSince(), absl::InfinitePast());
  EXPECT_THAT(answers.MayLead(At(19)), ElementsAre("c"));
}

TEST(StandbyAnswersTest, ASingleAddressMayStandForSeveralControllers) {
  for (const std::vector<std::string>& one :
       {std::vector<std::string>{"a"}, std::vector<std::string>{"a", "a"}}) {
    StandbyAnswers answers(one);
    answers.NobodyLeads("a", At(10));
    EXPECT_EQ(answers.LeadsSince(), absl::InfinitePast());
    EXPECT_THAT(answers.MayLead(At(5)), ElementsAre("a"));
  }
  EXPECT_EQ(StandbyAnswers(std::vector<std::string>{}).LeadsSince(), absl::InfinitePast());
}

}  // namespace
}  // namespace paceline
