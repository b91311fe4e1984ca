#include "cli/drill/core/report_card.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

DrillFinding FindingOf(const std::string& check, DrillVerdict verdict, const std::string& found,
                       const std::string& mend = "") {
  DrillFinding finding;
  finding.check = check;
  finding.verdict = verdict;
  finding.found = found;
  finding.mend = mend;
  return finding;
}

ReportCard Card() {
  ReportCard card;
  card.job = "my-net";
  card.ranks = 2;
  card.steps = 24;
  card.where = "a cluster of its own";
  card.took = absl::Seconds(192);
  card.findings = {FindingOf("reference", DrillVerdict::kPassed, "24 steps"),
                   FindingOf("drain", DrillVerdict::kNotRehearsed, "not asked for (--only)")};
  card.timeouts = {
      {"hang_timeout_s", absl::Seconds(20), absl::Seconds(1), absl::Seconds(6), "a step of 0.2 s"}};
  return card;
}

TEST(ReportCardTest, PassesThoughNotAllIsRehearsed) {
  EXPECT_EQ(FailuresOf(Card()), 0);
  EXPECT_THAT(
      CardText(Card()),
      AllOf(StartsWith("drill of my-net: 2 ranks, 24 steps a run, on a cluster of its own, 3 min "
                       "12 s\n\npassed  reference             24 steps\n"),
            HasSubstr("-       drain                 not rehearsed: not asked for (--only)\n"),
            HasSubstr("passed  hang_timeout_s        20 s; seen: a step of 0.2 s; proposed: 6 s\n"),
            EndsWith("\npassed; 1 not rehearsed\n")));
}

TEST(ReportCardTest, SaysWhatToMend) {
  ReportCard card = Card();
  card.findings.push_back(FindingOf("kill", DrillVerdict::kFailed, "losses differ", "attach it"));
  card.timeouts[0].given = absl::Milliseconds(500);
  EXPECT_EQ(FailuresOf(card), 2);
  EXPECT_THAT(
      CardText(card),
      AllOf(HasSubstr("FAILED  kill                  losses differ\n"
                      "                              mend: attach it\n"),
            HasSubstr("FAILED  hang_timeout_s        too short: 0.5 s; seen: a step of 0.2 s\n"
                      "                              mend: proposed: 6 s\n"),
            EndsWith("\nFAILED: 2 to mend; 1 not rehearsed\n")));
}

}  // namespace
}  // namespace paceline
