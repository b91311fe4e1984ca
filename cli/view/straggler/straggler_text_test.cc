#include "cli/view/straggler/straggler_text.h"

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(StragglerTextTest, WordsOfPeople) {
  EXPECT_EQ(WordOf(v1::VERDICT_PERSISTENT), "persistent");
  EXPECT_EQ(WordOf(v1::CAUSE_HOST_PAUSE), "host pause");
  EXPECT_EQ(WordOf(v1::REMEDY_HOT_SWAP), "hot-swap");
  EXPECT_EQ(WordOf(v1::DECISION_DID_NOT_HELP), "did not help");
  EXPECT_EQ(WordOf(static_cast<v1::DecisionState>(77)), "77");
}

TEST(StragglerTextTest, StepsHaveThreeDigits) {
  EXPECT_EQ(StepText(0.0964), "96.4 ms");
  EXPECT_EQ(StepText(0.9994), "999 ms");
  EXPECT_EQ(StepText(0.9996), "1 s");
  EXPECT_EQ(StepText(1.523), "1.52 s");
  EXPECT_EQ(StepText(120), "2 min 00 s");
  EXPECT_EQ(StepText(0), "");
}

TEST(StragglerTextTest, SlowExchangeSaysWhoWaitsLeast) {
  v1::StragglerVerdict verdict;
  verdict.set_slowdown(1.42);
  verdict.set_slowdown_low(1.4);
  verdict.set_slowdown_high(1.444);
  verdict.set_since_step(320);
  verdict.set_lost_share(0.031);
  v1::ExchangeGroup& group = *verdict.mutable_exchange();
  group.set_level(2);
  group.set_first_rank(8);
  group.set_ranks(4);
  group.set_waits_least(9);
  group.set_waits_least_share(0.93);
  EXPECT_EQ(ExchangeText(verdict),
            "ranks 8-11 (level 2): transfers take 1.42 x (1.40-1.44) as long as those of other "
            "groups since step 320, 3.1 % of the job's time; rank 9 comes last in 93 % of them");
  group.set_level(0);
  EXPECT_EQ(ExchangeText(verdict).substr(0, 24), "ranks 8-11 (gradients): ");
}

TEST(StragglerTextTest, GainIsInPercentOfTheStepBefore) {
  EXPECT_EQ(GainText(0.15, 0.10), "33 % shorter");
  EXPECT_EQ(GainText(0.10, 0.15), "50 % longer");
  EXPECT_EQ(GainText(0.10, 0.1002), "as long");
  EXPECT_EQ(GainText(0, 0.1), "");
}

TEST(StragglerTextTest, OwnerIsTheAutomationOrAPerson) {
  v1::RemedyDecision decision;
  EXPECT_EQ(OwnerText(decision), "");
  decision.set_by("ann\n");
  EXPECT_EQ(OwnerText(decision), "ann ");
  decision.set_automatic(true);
  EXPECT_EQ(OwnerText(decision), "automation");
}

TEST(StragglerTextTest, ParagraphIsBrokenBetweenWords) {
  std::string page;
  AddParagraph(&page, "  ", "Why", "one two three four\x1b five", 28);
  EXPECT_EQ(page,
            "  Why:        one two three\n"
            "              four\\x1b five\n");
  page.clear();
  AddParagraph(&page, "", "Why", "one two three four five six seven", 0);
  EXPECT_EQ(page, "Why:        one two three four five six seven\n");
  page.clear();
  AddParagraph(&page, "", "Why", "", 20);
  EXPECT_EQ(page, "");
}

TEST(StragglerTextTest, WordLongerThanTheLineStaysWhole) {
  std::string page;
  AddParagraph(&page, "", "Why", "abcdefghijklmnop q", 16);
  EXPECT_EQ(page, "Why:        abcdefghijklmnop\n            q\n");
}

}  // namespace
}  // namespace paceline
