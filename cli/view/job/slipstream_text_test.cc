#include <string>

#include "cli/view/job/strategy_text.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

TEST(SlipstreamTextTest, WindowsAreRead) {
  const auto window = ParseWindow("2:16");
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_EQ(window->min_steps(), 2);
  EXPECT_EQ(window->max_steps(), 16);
  EXPECT_EQ(window->max_cap(), 0) << "the default";
  EXPECT_EQ(ParseWindow("1:1:3")->max_cap(), 3);
  for (const char* text : {"", "4", "1:", "1:x", "0:4", "1:2:3:4", "1.5:2"}) {
    const auto none = ParseWindow(text);
    ASSERT_FALSE(none.ok()) << text;
    EXPECT_THAT(std::string(none.status().message()),
                HasSubstr("\"" + std::string(text) + "\" is no window"));
  }
}

// Two of four ranks have reported; rank 1 stalls more often.
v1::Job Training() {
  return Parse<v1::Job>(R"(
    ranks { rank: 0 figures { slipstream {
      mode: SLIPSTREAM_FREE rounds: 400 contributing_ranks: 1200 contributions: 400
      stale_rounds: 100 steps: 800 sent_updates: 799 window_s: 0.11 cap: 8 cap_wait_s: 1.25
      collective_s: 12 drift: 0.012 } } }
    ranks { rank: 1 figures { slipstream {
      mode: SLIPSTREAM_FREE rounds: 399 contributing_ranks: 1190 contributions: 200
      stale_rounds: 300 steps: 200 lost_updates: 5 collective_s: 12 } } }
    ranks { rank: 2 } ranks { rank: 3 })");
}

TEST(SlipstreamTextTest, RoundsInALine) {
  EXPECT_EQ(RoundsText(Training()),
            "400 rounds, 75.0 % of the ranks in each, window 0.11 s, cap 8 steps, 0.5 % of the "
            "steps dropped, drift 0.0120");
  EXPECT_EQ(RoundsText(v1::Job()), "");
  v1::Job dropping = Training();
  dropping.mutable_ranks(0)->mutable_figures()->mutable_slipstream()->set_mode(v1::SLIPSTREAM_DROP);
  EXPECT_THAT(RoundsText(dropping), HasSubstr("in each, 0.5 % of the steps"));
}

TEST(SlipstreamTextTest, RanksInATable) {
  EXPECT_EQ(RoundTable(Training(), 0, false),
            "RANK  STEPS  DROPPED  ROUNDS       IN  STALE  CAP WAIT  ROUND WAIT  COLLECTIVES\n"
            "   0    800        0     400  100.0 %   0.25     1.2 s       0.0 s         12 s\n"
            "   1    200        5     399   50.1 %   1.50     0.0 s       0.0 s         12 s\n");
  EXPECT_EQ(RoundTable(v1::Job(), 0, false), "");
}

}  // namespace
}  // namespace paceline
