#include "cli/drill/core/run_record.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// A run submitted at 0 whose steps end at these seconds.
RunRecord RunOf(const std::vector<double>& ends) {
  RunRecord run;
  run.submitted = At(0);
  for (const double end : ends) {
    run.marks.push_back({static_cast<int64_t>(run.marks.size()), "1", At(end)});
  }
  return run;
}

TEST(ParseStepLineTest, TakesTheMeanOfAllRanksToTheLastDigit) {
  const auto mark = ParseStepLine(
      "1970-01-01T00:00:12.345+00:00 I step=7 loss=2.30258509 mean_loss=2.30258512 lr=0.1 "
      "samples_per_s=512.3 grad_norm=1.25");
  ASSERT_TRUE(mark.has_value());
  EXPECT_EQ(mark->step, 6) << "from 0";
  EXPECT_EQ(mark->loss, "2.30258512");
  EXPECT_EQ(mark->time, At(12.345));
}

TEST(ParseStepLineTest, TakesTheRanksOwnLossWithoutIt) {
  const auto mark = ParseStepLine("2000-02-29T23:30:00.000-01:30 I step=1 loss=nan lr=0.1");
  ASSERT_TRUE(mark.has_value());
  EXPECT_EQ(mark->loss, "nan");
  EXPECT_EQ(mark->time, absl::FromUnixSeconds(951872400));
  const auto east = ParseStepLine("2000-03-01T02:30:00.000+01:30 I step=1 loss=1 lr=0.1");
  ASSERT_TRUE(east.has_value());
  EXPECT_EQ(east->time, mark->time);
}

TEST(ParseStepLineTest, OtherLinesAreNone) {
  for (const char* line :
       {"", "step=1 loss=2", " I step=1 loss=2", "it is I step=1 loss=2",
        "1970-01-01T00:00:12.345+00:00 I evaluated step=7 loss=2",
        "1970-01-01T00:00:12.345+00:00 I step=x loss=2",
        "1970-01-01T00:00:12.345+00:00 I step=0 loss=2", "1970-01-01T00:00:12.345+00:00 I step=3",
        "1970-01-01T00:00:12.345+00:00 I step=3 loss=low",
        "1970-01-01T00:00:1x.345+00:00 I step=3 loss=2",
        "1970-01-01T00:00:12.345*00:00 I step=3 loss=2"}) {
    EXPECT_FALSE(ParseStepLine(line).has_value()) << line;
  }
}

TEST(TimesOfTest, LeavesOutTheFirstTwoSteps) {
  const RunTimes times = TimesOf(RunOf({10, 18, 19, 21, 22}));
  EXPECT_EQ(times.until_first, absl::Seconds(10));
  EXPECT_EQ(times.longest, absl::Seconds(2));
  EXPECT_EQ(times.median, absl::Seconds(1));
}

TEST(TimesOfTest, TakesThePaceOff) {
  RunRecord run = RunOf({1, 2, 5, 7});
  run.pace = absl::Milliseconds(2500);
  run.paced_until = 4;
  EXPECT_EQ(TimesOf(run).longest, absl::Milliseconds(500));
  EXPECT_EQ(TimesOf(run).median, absl::Milliseconds(500)) << "never below zero";
  run.paced_until = 3;
  EXPECT_EQ(TimesOf(run).longest, absl::Seconds(2)) << "the last step is not paced";
}

TEST(TimesOfTest, OfNoSteps) {
  for (const RunRecord& run : {RunOf({}), RunOf({3}), RunOf({3, 9})}) {
    EXPECT_EQ(TimesOf(run).longest, absl::ZeroDuration());
  }
}

TEST(ChangesOfTest, TellsThePartsOfAPause) {
  RunRecord run = RunOf({1, 2, 3, 4, 11, 12});
  RankChange change;
  change.decided = At(5);
  run.changes.push_back(change);  // It never came about.
  EXPECT_EQ(ChangesOf(run).rejoin, absl::ZeroDuration());
  change.trained = At(7);
  run.changes.push_back(change);
  const ChangeTimes times = ChangesOf(run);
  EXPECT_EQ(times.pause, absl::Seconds(7));
  EXPECT_EQ(times.rejoin, absl::Seconds(2));
  EXPECT_EQ(times.first_step, absl::Seconds(4));
  EXPECT_EQ(run.losses(), 2);
}

}  // namespace
}  // namespace paceline
