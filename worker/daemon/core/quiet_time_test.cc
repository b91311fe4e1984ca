#include "worker/daemon/core/quiet_time.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(QuietTimeTest, CountsFromTheLastOutputOrProcessorTime) {
  QuietTime time(absl::Seconds(100));
  time.Look(At(0), 0, absl::ZeroDuration());
  EXPECT_EQ(time.quiet(), absl::ZeroDuration());
  time.Look(At(10), 0, absl::ZeroDuration());
  time.Look(At(20), 0, absl::ZeroDuration());
  EXPECT_EQ(time.quiet(), absl::Seconds(20));
  time.Look(At(30), 1, absl::ZeroDuration());
  EXPECT_EQ(time.quiet(), absl::ZeroDuration());
  time.Look(At(40), 1, absl::ZeroDuration());
  EXPECT_EQ(time.quiet(), absl::Seconds(10));
  time.Look(At(50), 1, absl::Seconds(3));
  EXPECT_EQ(time.quiet(), absl::ZeroDuration());
}

TEST(QuietTimeTest, ThreadsThatOnlyWakeUpDoNotCount) {
  QuietTime time(absl::Seconds(100));
  for (int look = 0; look <= 10; ++look) {
    time.Look(At(look * 10), 5, look * absl::Milliseconds(90));
  }
  EXPECT_EQ(time.quiet(), absl::Seconds(100));
  time.Look(At(110), 5, absl::Milliseconds(1000));
  EXPECT_EQ(time.quiet(), absl::ZeroDuration());
}

TEST(QuietTimeTest, AnswersToUsAreNoSignOfLife) {
  QuietTime time(absl::Seconds(100));
  time.Look(At(0), 0, absl::ZeroDuration());
  time.Look(At(10), 0, absl::Seconds(2), /*was_asked=*/true);
  EXPECT_EQ(time.quiet(), absl::Seconds(10));
  time.Look(At(20), 1, absl::Seconds(2), /*was_asked=*/true);
  EXPECT_EQ(time.quiet(), absl::ZeroDuration()) << "it has written";
}

TEST(QuietTimeTest, AProcessThatIsGoneWithItsTimeIsNews) {
  QuietTime time(absl::Seconds(100));
  time.Look(At(0), 5, absl::Seconds(60));
  time.Look(At(10), 5, absl::Seconds(60));
  time.Look(At(20), 5, absl::Seconds(2));
  EXPECT_EQ(time.quiet(), absl::ZeroDuration());
}

TEST(QuietTimeTest, LooksAsOftenAsThePatienceAsks) {
  QuietTime patient(absl::Hours(1));
  EXPECT_EQ(patient.next_look(), absl::InfinitePast());
  patient.Look(At(1), 0, absl::ZeroDuration());
  EXPECT_EQ(patient.next_look(), At(11));
  QuietTime hasty(absl::Milliseconds(1));
  hasty.Look(At(1), 0, absl::ZeroDuration());
  EXPECT_EQ(hasty.next_look(), At(1.1));
}

}  // namespace
}  // namespace paceline
