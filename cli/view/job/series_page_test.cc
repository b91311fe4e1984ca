#include "cli/view/job/series_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>

#include "cli/text/sanitize.h"

namespace paceline {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::JobSeries Series(int points) {
  v1::JobSeries series;
  series.set_period_s(6);
  for (int i = 1; i <= points; ++i) {
    v1::SeriesPoint& point = *series.add_points();
    point.set_step_s(0.1 * i);
    point.set_samples_per_s(10.0 / i);
    point.set_wait_share(0);
  }
  return series;
}

TEST(SeriesPageTest, RowsOfWhatIsKnown) {
  const std::string page = SeriesPage(Series(10), {}, true);
  EXPECT_THAT(page, HasSubstr("LAST 1 MIN 00 S"));
  EXPECT_THAT(page, HasSubstr("step time"));
  EXPECT_THAT(page, HasSubstr("1 s"));
  EXPECT_THAT(page, HasSubstr("100 ms"));
  EXPECT_THAT(page, HasSubstr("wait for others"));
  EXPECT_THAT(page, Not(HasSubstr("MFU")));
  EXPECT_THAT(page, Not(HasSubstr("tokens/s")));
}

v1::JobNumber Number(const std::string& name, double mean) {
  v1::JobNumber number;
  number.set_name(name);
  number.set_step(1200);
  number.set_mean(mean);
  number.set_least(0.25);
  number.set_most(1.5);
  number.set_ranks(4);
  return number;
}

TEST(SeriesPageTest, NumbersOfTheScript) {
  v1::JobSeries series = Series(10);
  *series.add_reported() = Number("train/accuracy", 0.8765432);
  *series.add_reported() = Number("norm", -std::numeric_limits<double>::quiet_NaN());
  const std::string page = SeriesPage(series, {}, true);
  EXPECT_THAT(page, HasSubstr("step time"));
  EXPECT_THAT(page, HasSubstr("\n\nREPORTED"));
  EXPECT_THAT(page, ContainsRegex("train/accuracy +0.876543 +0.25 +1.5 +4 +1200\n"));
  EXPECT_THAT(page, ContainsRegex("norm +nan +0.25"));
  series.clear_points();
  EXPECT_THAT(SeriesPage(series, {}, true), StartsWith("REPORTED"));
}

TEST(SeriesPageTest, OfAnEndedJobNothingIsCalledNew) {
  v1::JobSeries series = Series(10);
  *series.add_reported() = Number("accuracy", 0.5);
  EXPECT_THAT(SeriesPage(series, {}, true), HasSubstr(" NOW "));
  series.mutable_end_time()->set_seconds(1700000000);
  const std::string page = SeriesPage(series, {}, true);
  EXPECT_THAT(page, Not(HasSubstr(" NOW ")));
  EXPECT_THAT(page, HasSubstr(" AT END "));
  EXPECT_THAT(page, ContainsRegex("LAST REPORTED +MEAN .*\naccuracy +0.5 "));
}

TEST(SeriesPageTest, FitsTheTerminal) {
  for (const int width : {60, 80, 100, 200}) {
    PageStyle style;
    style.width = width;
    v1::JobSeries series = Series(200);
    *series.add_reported() = Number("train/accuracy_of_the_first_five", 0.8765432);
    std::istringstream lines(SeriesPage(series, style, true));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(DisplayWidth(line), width) << line;
  }
}

TEST(SeriesPageTest, NothingIsKnown) {
  EXPECT_EQ(SeriesPage({}, {}, true), "");
  v1::JobSeries empty;
  empty.add_points();
  EXPECT_EQ(SeriesPage(empty, {}, true), "");
}

}  // namespace
}  // namespace paceline
