#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/text/sanitize.h"
#include "cli/view/straggler/remedy_page.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::JobAdvice Advice(const std::string& text) {
  v1::JobAdvice advice;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &advice)) << text;
  return advice;
}

// A page of 80 columns, in which each line fits.
std::string Page(const std::string& text) {
  const std::string page = AdvicePage(Advice(text), "digits", {80, false});
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    EXPECT_LE(DisplayWidth(line), 80) << line;
  }
  return page;
}

constexpr char kSlow[] = R"(
  mode: STRAGGLER_MODE_ADVISE step_s: 0.1523 steps_seen: 420
  stragglers { kind: VERDICT_PERSISTENT rank: 5 node: "n3" step: 320 since_step: 200 slowdown: 1.52
               slowdown_low: 1.5 slowdown_high: 1.54 cause: CAUSE_COMPUTE lost_share: 0.334
               episodes: 2 }
  stragglers { kind: VERDICT_NODE rank: -1 node: "n4" step: 320 since_step: 190 slowdown: 1.1
               slowdown_low: 1.05 slowdown_high: 1.15 cause: CAUSE_COMMUNICATION lost_share: 0.05 }
  plan { reason: "no ladder helps: all wait for rank 5, which takes 0.152 s a step where 0.1 s are usual"
         steps: 256 typical_s: 0.0964 stall_share: 0.021 mean_stall_s: 0.3 } )";

TEST(AdvicePageTest, SlowRanksAreToldWithTheirNumbers) {
  const std::string page = Page(kSlow);
  EXPECT_THAT(page, HasSubstr("Mode:       advise: a person decides what is done\n"
                              "Steps:      420 seen, the latest 152 ms\n"
                              "Ladder:     no ladder helps: all wait for rank 5, which takes"));
  EXPECT_THAT(
      page,
      HasSubstr(
          "Stalls:     2.1 % of a rank's steps, by 300 ms; 96.4 ms are typical (256 steps)\n"));
  EXPECT_THAT(page,
              HasSubstr("Slow now:\n"
                        "RANK  NODE  SINCE STEP   TIMES ITS PEERS    LOST  CAUSE          VERDICT\n"
                        "   5  n3           200  1.52 (1.50-1.54)  33.4 %  compute        "
                        "persistent\n"
                        "   -  n4           190  1.10 (1.05-1.15)   5.0 %  communication  "
                        "node"));
  EXPECT_THAT(AdvicePage(Advice(kSlow), "digits", {100, false}),
              HasSubstr("compute               2  persistent\n"));
}

TEST(AdvicePageTest, AdviceSaysWhatWhyAndHowToHaveIt) {
  const std::string page = Page(std::string(kSlow) + R"(
      decisions { id: 3 kind: REMEDY_HOT_SWAP state: DECISION_ADVISED
                  summary: "hot-swap of rank 5 on n3" before_s: 0.1523 predicted_s: 0.1014
                  cost_s: 0.3046
                  reason: "rank 5 on n3 takes 1.52 x (1.50-1.54) the time of its peers since step 200: 33 % of the job's time, 6.1 s so far" } )");
  EXPECT_THAT(
      page,
      HasSubstr("\nAdvice:\n"
                "  3  hot-swap of rank 5 on n3\n"
                "     Why:        rank 5 on n3 takes 1.52 x (1.50-1.54) the time of its peers\n"
                "                 since step 200: 33 % of the job's time, 6.1 s so far\n"
                "     Cost:       305 ms, once\n"
                "     Step:       152 ms before, 101 ms predicted (33 % shorter)\n"
                "     Do it:      paceline job apply digits 3\n"));
}

TEST(AdvicePageTest, WhatGoesOnIsToldApart) {
  const std::string page = Page(R"(
      mode: STRAGGLER_MODE_AUTO brake: "the automation is paused by ann" steps_seen: 9
      decisions { id: 1 kind: REMEDY_DRAIN state: DECISION_ORDERED by: "ann" summary: "drain of n4" }
      decisions { id: 2 kind: REMEDY_LADDER state: DECISION_CHECKING automatic: true
                  summary: "ladder 2:8,8:all" before_s: 0.2 predicted_s: 0.1 measured_s: 0.11 }
      decisions { id: 4 kind: REMEDY_ASK_PERSON state: DECISION_ADVISED before_s: 0.2
                  predicted_s: 0.2 summary: "a person is needed" reason: "3 stragglers of 8 ranks" } )");
  EXPECT_THAT(page, HasSubstr("Brake:      the automation is paused by ann\n"));
  EXPECT_THAT(page, HasSubstr("\nUnder way:\n  1  drain of n4\n     By:         ann\n"));
  EXPECT_THAT(page,
              HasSubstr("\nBeing checked:\n  2  ladder 2:8,8:all\n"
                        "     Step:       200 ms before, 100 ms predicted (50 % shorter), 110 ms "
                        "so far\n"
                        "     By:         automation\n"));
  EXPECT_THAT(page, HasSubstr("\nFor a person to decide:\n  4  a person is needed\n"
                              "     Why:        3 stragglers of 8 ranks\n"
                              "     Step:       200 ms\n"));
  EXPECT_THAT(page, Not(HasSubstr("job apply"))) << "there is nothing to apply";
  EXPECT_THAT(page, Not(HasSubstr("Reported")));
}

TEST(AdvicePageTest, OuterStepsAreForPeopleWithWhatIsPredicted) {
  const std::string page = Page(R"(
      decisions { id: 4 kind: REMEDY_OUTER_STEP state: DECISION_ADVISED before_s: 0.2
                  predicted_s: 0.1 summary: "outer steps: 50:all" reason: "61 % is exchange" } )");
  EXPECT_THAT(page, HasSubstr("\nFor a person to decide:\n  4  outer steps: 50:all\n"
                              "     Why:        61 % is exchange\n"
                              "     Step:       200 ms before, 100 ms predicted (50 % shorter)\n"));
  EXPECT_THAT(page, Not(HasSubstr("job apply")));
}

TEST(AdvicePageTest, OfAGroupPeopleAreToldAndNotAsked) {
  const std::string page = Page(R"(
      decisions { id: 4 kind: REMEDY_ASK_PERSON state: DECISION_ADVISED verdict { kind: VERDICT_GROUP }
                  summary: "reported: a whole group is slow" reason: "peer group 0 is slow" } )");
  EXPECT_THAT(page,
              HasSubstr("\nReported, nothing to decide:\n  4  reported: a whole group is slow\n"));
  EXPECT_THAT(page, Not(HasSubstr("For a person to decide")));
}

TEST(AdvicePageTest, NobodyIsSlow) {
  EXPECT_EQ(Page("mode: STRAGGLER_MODE_ADVISE steps_seen: 40 step_s: 0.1 unjudged_ranks: [3, 7]"),
            "Mode:       advise: a person decides what is done\n"
            "Steps:      40 seen, the latest 100 ms\n"
            "Not judged: ranks 3, 7: too few peers on the same hardware\n"
            "\nNo rank is slow.\n");
}

TEST(AdvicePageTest, SlowExchangesAreToldApartFromRanks) {
  constexpr char kExchange[] = R"(
      stragglers { kind: VERDICT_SUSPECT rank: -1 since_step: 320 slowdown: 1.42
                   slowdown_low: 1.4 slowdown_high: 1.44 cause: CAUSE_COMMUNICATION
                   lost_share: 0.031
                   exchange { level: 2 first_rank: 8 ranks: 4 waits_least: 9
                              waits_least_share: 0.93 } } )";
  const std::string page = Page(absl::StrCat(kSlow, kExchange));
  EXPECT_THAT(page, HasSubstr("\nSlow exchanges, which no remedy would mend:\n"
                              "suspect:    ranks 8-11 (level 2): transfers take 1.42 x "));
  EXPECT_THAT(page, Not(HasSubstr("suspect\n"))) << "not in the table";
  const std::string no_rank = Page(absl::StrCat("steps_seen: 400", kExchange));
  EXPECT_THAT(no_rank, HasSubstr("\nNo rank is slow.\n\nSlow exchanges"));
}

TEST(AdvicePageTest, NothingIsMeasuredYet) {
  EXPECT_EQ(Page("mode: STRAGGLER_MODE_AUTO"),
            "Mode:       auto: what is advised is done, unless a brake is on\n"
            "Steps:      none seen yet\n");
  EXPECT_EQ(Page("mode: STRAGGLER_MODE_OFF"), "Mode:       off: nobody looks for stragglers\n");
}

TEST(AdvicePageTest, TextFromElsewhereIsNeutralised) {
  EXPECT_THAT(Page(R"(steps_seen: 1 brake: "\033[2J" decisions { id: 1 state: DECISION_ADVISED
                      summary: "\033]0;x" reason: "\r" })"),
              Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace paceline
