#include "cli/drill/card_json.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

TEST(CardJsonTest, HasWhatTheCardHas) {
  ReportCard card;
  card.job = "my-net";
  card.findings.resize(2);
  card.findings[0].check = "kill";
  card.findings[0].verdict = DrillVerdict::kFailed;
  card.findings[0].first_difference = 9;
  card.findings[0].times.pause = absl::Milliseconds(250);
  card.findings[1].check = "drain";
  card.findings[1].verdict = DrillVerdict::kNotRehearsed;
  card.timeouts = {{"hang_timeout_s", absl::Seconds(1), absl::Seconds(2), absl::Seconds(6), "x"}};
  const nlohmann::json json = nlohmann::json::parse(CardJson(card));
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["checks"][0]["verdict"], "failed");
  EXPECT_EQ(json["checks"][0]["first_difference"], 9);
  EXPECT_EQ(json["checks"][0]["pause_s"], 0.25);
  EXPECT_EQ(json["checks"][1]["verdict"], "not rehearsed");
  EXPECT_FALSE(json["checks"][1].contains("pause_s"));
  EXPECT_EQ(json["timeouts"][0]["too_short"], true);
  EXPECT_EQ(json["timeouts"][0]["proposed_s"], 6);
}

}  // namespace
}  // namespace paceline
