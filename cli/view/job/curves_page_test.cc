#include "cli/view/job/curves_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace paceline {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

void AddPoint(int64_t step, double least, double mean, double most, v1::Curve* curve) {
  v1::CurvePoint& point = *curve->add_points();
  point.set_step(step);
  point.set_least(least);
  point.set_mean(mean);
  point.set_most(most);
  point.set_values(4);
}

v1::JobCurves Curves() {
  v1::JobCurves curves;
  curves.set_job_id("job-1");
  curves.mutable_since()->set_seconds(1700000000);
  curves.set_since_step(3);
  v1::Curve& loss = *curves.add_curves();
  loss.set_name("loss");
  loss.set_width(4);
  AddPoint(7, 1.5, 2.25, 9, &loss);
  AddPoint(11, 0.5, 0.75, 1, &loss);
  v1::Curve& norm = *curves.add_curves();
  norm.set_name("norm");
  norm.set_reported(true);
  v1::CurvePoint& gap = *norm.add_points();
  gap.set_step(11);
  gap.set_not_finite(2);
  return curves;
}

TEST(CurvesPageTest, RowPerNumber) {
  const std::string page = CurvesPage(Curves(), {}, false);
  EXPECT_THAT(page, ContainsRegex("loss +0.75 +0.5 +9 +11 "));
  EXPECT_THAT(page, ContainsRegex("reported: norm +nan +- +- +11"));
  EXPECT_THAT(page, HasSubstr("since step 3, 2023-11-1"));
  EXPECT_THAT(page, Not(HasSubstr("no room")));
  v1::JobCurves full = Curves();
  full.set_left_out(true);
  EXPECT_THAT(CurvesPage(full, {}, false), HasSubstr("no room"));
  EXPECT_EQ(CurvesPage({}, {}, false), "");
}

TEST(CurvesPageTest, CsvHasALinePerPoint) {
  EXPECT_EQ(CurvesCsv(Curves()),
            "job,name,reported,step,mean,least,most,values,not_finite\n"
            "job-1,loss,false,7,2.25,1.5,9,4,0\n"
            "job-1,loss,false,11,0.75,0.5,1,4,0\n"
            "job-1,norm,true,11,,,,0,2\n");
}

}  // namespace
}  // namespace paceline
