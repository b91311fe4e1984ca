#include "controller/core/steps/run_curves.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

const JobId kJob("job-1");
const JobId kOther("job-2");

CurveValue Own(const std::string& name, int64_t step, double value) {
  return {{/*reported=*/false, name}, step, value};
}
CurveValue Reported(const std::string& name, int64_t step, double value) {
  return {{/*reported=*/true, name}, step, value};
}

TEST(RunCurvesTest, KeepsEachNumberByItsName) {
  RunCurves curves;
  EXPECT_EQ(curves.Find(kJob), nullptr);
  curves.Add(kJob, 7, {Own("loss", 7, 2), Reported("loss", 6, 5)}, At(100));
  curves.Add(kJob, 8, {Own("loss", 8, 1), Reported("loss", 6, 5)}, At(101));
  const JobCurves& job = *curves.Find(kJob);
  EXPECT_EQ(job.since, At(100).wall);
  EXPECT_EQ(job.since_step, 7);
  ASSERT_EQ(job.curves.size(), 2U) << "the script's loss is another number than Paceline's";
  EXPECT_EQ(job.curves.at({false, "loss"}).points().size(), 2U);
  EXPECT_EQ(job.curves.at({true, "loss"}).points().size(), 1U) << "it was reported once";
  EXPECT_FALSE(job.left_out);
  EXPECT_EQ(curves.curves(), 2U);
}

TEST(RunCurvesTest, NamesOfOneScriptAreBounded) {
  RunCurvesOptions options;
  options.max_reported = 3;
  RunCurves curves(options);
  std::vector<CurveValue> values = {Own("loss", 1, 1)};
  for (int i = 0; i < 4; ++i) values.push_back(Reported(absl::StrCat("n", i), 1, 1));
  curves.Add(kJob, 1, values, At(1));
  const JobCurves& job = *curves.Find(kJob);
  EXPECT_EQ(job.curves.size(), 4U);
  EXPECT_EQ(job.curves.count({true, "n3"}), 0U);
  EXPECT_TRUE(job.left_out);
  curves.Add(kJob, 2, {Own("mfu", 2, 1)}, At(2));
  EXPECT_EQ(curves.Find(kJob)->curves.size(), 5U) << "Paceline's own do not count";
}

TEST(RunCurvesTest, JobThatEndedFirstMakesRoom) {
  RunCurvesOptions options;
  options.max_curves = 3;
  RunCurves curves(options);
  const JobId late("job-3");
  curves.Add(kJob, 1, {Own("loss", 1, 1)}, At(1));
  curves.Add(kOther, 1, {Own("loss", 1, 1)}, At(1));
  curves.Add(late, 1, {Own("loss", 1, 1), Own("mfu", 1, 1)}, At(1));
  EXPECT_TRUE(curves.Find(late)->left_out) << "the others still run";
  EXPECT_EQ(curves.curves(), 3U);
  curves.End(kOther, At(10));
  curves.End(kJob, At(20));
  curves.Add(late, 2, {Own("loss", 2, 1), Own("mfu", 2, 1)}, At(21));
  EXPECT_EQ(curves.Find(late)->curves.size(), 2U);
  EXPECT_EQ(curves.Find(kOther), nullptr) << "it ended first";
  EXPECT_NE(curves.Find(kJob), nullptr);
  EXPECT_EQ(curves.curves(), 3U);
}

TEST(RunCurvesTest, ResumedJobGoesOnAndIsKept) {
  RunCurvesOptions options;
  options.max_curves = 1;
  RunCurves curves(options);
  curves.Add(kJob, 1, {Own("loss", 1, 1)}, At(1));
  curves.End(kJob, At(2));
  curves.Add(kJob, 2, {Own("loss", 2, 1)}, At(3));
  curves.Add(kOther, 1, {Own("loss", 1, 1)}, At(4));
  ASSERT_NE(curves.Find(kJob), nullptr);
  EXPECT_EQ(curves.Find(kJob)->curves.at({false, "loss"}).points().size(), 2U);
  EXPECT_TRUE(curves.Find(kOther)->curves.empty());
  curves.End(kOther, At(5));
  EXPECT_EQ(curves.Find(kOther), nullptr) << "a job without curves is not kept";
  curves.Forget(kJob);
  EXPECT_EQ(curves.Find(kJob), nullptr);
  EXPECT_EQ(curves.curves(), 0U);
}

}  // namespace
}  // namespace paceline
