#include "cli/text/past_moment.h"

#include "gtest/gtest.h"

namespace paceline {
namespace {

const absl::TimeZone kZone = absl::FixedTimeZone(2 * 60 * 60);
const absl::Time kNow = absl::FromCivil(absl::CivilSecond(2026, 11, 22, 14, 30, 0), kZone);

absl::Time At(int day, int hour, int minute, int second = 0) {
  return absl::FromCivil(absl::CivilSecond(2026, 11, day, hour, minute, second), kZone);
}

TEST(PastMomentTest, DurationsCountFromNow) {
  EXPECT_EQ(ParsePastMoment("10m", kNow, kZone).value(), kNow - absl::Minutes(10));
  EXPECT_EQ(ParsePastMoment("1h30m", kNow, kZone).value(), kNow - absl::Minutes(90));
}

TEST(PastMomentTest, TimesAreOfTheZoneUnlessTheyNameOne) {
  EXPECT_EQ(ParsePastMoment("2026-11-22 14:05", kNow, kZone).value(), At(22, 14, 5));
  EXPECT_EQ(ParsePastMoment("2026-11-21 08:05:09", kNow, kZone).value(), At(21, 8, 5, 9));
  EXPECT_EQ(ParsePastMoment("2026-11-22T12:05:00Z", kNow, kZone).value(), At(22, 14, 5));
}

TEST(PastMomentTest, TimeOfDayIsTheLastOne) {
  EXPECT_EQ(ParsePastMoment("14:05", kNow, kZone).value(), At(22, 14, 5));
  EXPECT_EQ(ParsePastMoment("14:30:01", kNow, kZone).value(), At(21, 14, 30, 1));
}

TEST(PastMomentTest, AnythingElseIsRefused) {
  for (const char* text : {"", "x", "10", "-5m", "0", "inf", "infinite-past", "25:00", "2026-11-22",
                           "2026-11-22 14:31", "2027-01-01T00:00:00Z"}) {
    const auto moment = ParsePastMoment(text, kNow, kZone);
    EXPECT_EQ(moment.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace paceline
