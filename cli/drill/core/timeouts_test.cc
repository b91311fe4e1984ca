#include "cli/drill/core/timeouts.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

DrillTimeouts Defaults() {
  return {absl::Seconds(10), absl::Seconds(20), absl::Seconds(30), absl::Minutes(10),
          absl::Minutes(10)};
}

const TimeoutLine& LineOf(const std::vector<TimeoutLine>& lines, const std::string& key) {
  for (const TimeoutLine& line : lines) {
    if (line.key == key) return line;
  }
  ADD_FAILURE() << key;
  return lines.front();
}

TEST(JudgeTimeoutsTest, DefaultsFitAQuickJob) {
  MeasuredTimes seen;
  seen.step = absl::Milliseconds(200);
  seen.first_step = absl::Seconds(1);
  seen.until_first = absl::Seconds(8);
  seen.rejoin = absl::Seconds(9);
  const auto lines = JudgeTimeouts(Defaults(), seen, /*replaces=*/true);
  EXPECT_EQ(lines.size(), 5u);
  for (const TimeoutLine& line : lines) EXPECT_FALSE(line.is_too_short()) << line.key;
  EXPECT_EQ(LineOf(lines, "hang_timeout_s").proposed, absl::Seconds(6));
  EXPECT_EQ(LineOf(lines, "collective_timeout_s").proposed, absl::Seconds(9));
}

TEST(JudgeTimeoutsTest, AStepThatIsLongMakesThemTooShort) {
  MeasuredTimes seen;
  seen.step = absl::Seconds(8);
  const auto lines = JudgeTimeouts(Defaults(), seen, true);
  EXPECT_TRUE(LineOf(lines, "hang_timeout_s").is_too_short());
  EXPECT_TRUE(LineOf(lines, "stall_warning_s").is_too_short());
  EXPECT_FALSE(LineOf(lines, "collective_timeout_s").is_too_short());
  EXPECT_EQ(LineOf(lines, "hang_timeout_s").proposed, absl::Minutes(2));
}

TEST(JudgeTimeoutsTest, AFirstStepThatIsLongMakesCollectivesTooShort) {
  MeasuredTimes seen;
  seen.first_step = absl::Seconds(25);
  const auto lines = JudgeTimeouts(Defaults(), seen, true);
  const TimeoutLine& line = LineOf(lines, "collective_timeout_s");
  EXPECT_TRUE(line.is_too_short());
  EXPECT_EQ(line.seen, "a first step of 25 s");
  EXPECT_FALSE(LineOf(lines, "hang_timeout_s").is_too_short()) << "the first two may be long";
}

TEST(JudgeTimeoutsTest, WithoutRecoveryNobodyLooksForHangs) {
  const auto lines = JudgeTimeouts(Defaults(), {}, /*replaces=*/false);
  EXPECT_EQ(lines.size(), 2u);
}

// Whatever was measured, what is proposed fits it, and is in the order that is asked for.
TEST(JudgeTimeoutsTest, ProposalsAreSound) {
  std::mt19937 random(1);
  const auto draw = [&] {
    return absl::Seconds(std::exp2(std::uniform_real_distribution<double>(-10, 10)(random)));
  };
  for (int i = 0; i < 1000; ++i) {
    const MeasuredTimes seen = {draw(), draw(), draw(), draw()};
    const auto lines = JudgeTimeouts(Defaults(), seen, true);
    for (const TimeoutLine& line : lines) EXPECT_GE(line.proposed, line.least) << line.key;
    const auto proposed = [&](const std::string& key) { return LineOf(lines, key).proposed; };
    EXPECT_LT(proposed("stall_warning_s"), proposed("hang_timeout_s"));
    EXPECT_LT(proposed("hang_timeout_s"), proposed("collective_timeout_s"));
    EXPECT_LT(proposed("collective_timeout_s"), proposed("give_up_s"));
    EXPECT_GE(proposed("startup_timeout_s"), 3 * proposed("collective_timeout_s"));
  }
}

TEST(SpanTextTest, IsShort) {
  EXPECT_EQ(SpanText(absl::Milliseconds(352)), "0.35 s");
  EXPECT_EQ(SpanText(absl::ZeroDuration()), "0 s");
  EXPECT_EQ(SpanText(absl::Seconds(12.4)), "12 s");
  EXPECT_EQ(SpanText(absl::Seconds(192)), "3 min 12 s");
  EXPECT_EQ(SpanText(absl::Minutes(10)), "10 min");
}

}  // namespace
}  // namespace paceline
