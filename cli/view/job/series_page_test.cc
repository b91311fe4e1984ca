#include "cli/view/job/series_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/text/sanitize.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(SeriesPageTest, FitsTheTerminal) {
  for (const int width : {60, 80, 100, 200}) {
    PageStyle style;
    style.width = width;
    std::istringstream lines(SeriesPage(Series(200), style, true));
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
