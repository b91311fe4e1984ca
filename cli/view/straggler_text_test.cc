#include "cli/view/straggler_text.h"

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
