#include "cli/drill/core/card_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportCard SmallCard() {
  ReportCard card;
  card.job = "my-net";
  card.ranks = 2;
  card.steps = 24;
  card.where = "a cluster of its own";
  card.took = absl::Seconds(90);
  card.findings.resize(2);
  card.findings[0].check = "kill";
  card.findings[0].found = "the same losses";
  card.findings[1].check = "drain";
  card.findings[1].verdict = DrillVerdict::kNotRehearsed;
  card.findings[1].found = "not asked for";
  return card;
}

TEST(CardHtmlTest, PassesIfNothingHasFailed) {
  const std::string html = CardHtml(SmallCard());
  EXPECT_THAT(html, HasSubstr("<p class=\"result passed\">Passed</p>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">kill</th><td class=\"passed\">passed</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"left\">not rehearsed</td><td>not asked for</td>"));
  EXPECT_THAT(html, Not(HasSubstr("Timeouts")));
}

TEST(CardHtmlTest, SaysWhatToMend) {
  ReportCard card = SmallCard();
  card.findings[0].verdict = DrillVerdict::kFailed;
  card.findings[0].mend = "attach it";
  card.timeouts = {{"hang_timeout_s", absl::Seconds(1), absl::Seconds(2), absl::Seconds(6), "x"}};
  const std::string html = CardHtml(card);
  EXPECT_THAT(html, HasSubstr("<p class=\"result failed\">To mend: 2</p>"));
  EXPECT_THAT(html, HasSubstr("the same losses<br><strong>Mend:</strong> attach it"));
  EXPECT_THAT(html, HasSubstr("hang_timeout_s</th><td class=\"failed\">failed</td>"));
}

TEST(CardHtmlTest, NothingOfTheJobIsMarkup) {
  ReportCard card = SmallCard();
  card.job = "<img src=x>";
  card.findings[0].found = "a < b & \"c\"";
  const std::string html = CardHtml(card);
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("a &lt; b &amp; &quot;c&quot;"));
}

}  // namespace
}  // namespace paceline
