#include "controller/page/page_curves.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

using nlohmann::json;

class PageCurvesTest : public ::testing::Test {
 protected:
  json Describe() const {
    return DescribeRunForPage(CopyRun(watched_.id, *watched_.cluster, curves_, histories_));
  }

  WatchedJob watched_{WatchedRequest(StragglerMode::kAdvise, /*ranks=*/4)};
  RunCurves curves_;
  JobHistories histories_;
};

TEST_F(PageCurvesTest, TellsCurvesPointByPoint) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  curves_.Add(watched_.id, 3, {{{false, "loss"}, 3, 1.0 / 3}, {{true, "acc"}, 3, -2}},
              watched_.now);
  curves_.Add(watched_.id, 4, {{{false, "loss"}, 4, kNan}}, watched_.now);
  const json run = Describe();
  EXPECT_EQ(run["known"], true);
  EXPECT_EQ(run["ended"], false);
  EXPECT_EQ(run["since"], 1700000000);
  EXPECT_EQ(run["since_step"], 3);
  EXPECT_EQ(run["left_out"], false);
  ASSERT_EQ(run["curves"].size(), 2U);
  EXPECT_EQ(run["curves"][0].dump(),
            R"({"least":[0.333333,null],"mean":[0.333333,null],"most":[0.333333,null],)"
            R"("name":"loss","reported":false,"steps":[3,4],"width":1})");
  EXPECT_EQ(run["curves"][1]["reported"], true);
  EXPECT_EQ(run["curves"][1]["mean"][0], -2);
}

TEST_F(PageCurvesTest, SaysThatNothingIsKept) {
  const json run = Describe();
  EXPECT_EQ(run["known"], true);
  EXPECT_TRUE(run["since"].is_null());
  EXPECT_TRUE(run["curves"].empty());
  const json gone =
      DescribeRunForPage(CopyRun(JobId("job-gone"), *watched_.cluster, curves_, histories_));
  EXPECT_EQ(gone.dump(), R"({"id":"job-gone","known":false})");
}

TEST_F(PageCurvesTest, MarksAreWhatHappenedWhileItTrained) {
  const std::vector<std::pair<JobEventKind, int64_t>> happened = {
      {JobEventKind::kState, 5},      {JobEventKind::kMembership, 0},
      {JobEventKind::kMembership, 7}, {JobEventKind::kCheckpoint, 9},
      {JobEventKind::kEvaluation, 9}, {JobEventKind::kPlan, 11},
      {JobEventKind::kLabels, 12}};
  std::vector<JobLifeEvent> events;
  for (const auto& [kind, step] : happened) {
    JobLifeEvent& event = events.emplace_back();
    event.id = static_cast<int64_t>(events.size());
    event.time = watched_.now.wall;
    event.kind = kind;
    event.step = step;
    event.warning = kind == JobEventKind::kMembership;
    event.what = "<b>as it is</b>";
  }
  histories_.Restore({{watched_.id, events}}, *watched_.cluster);
  const json marks = Describe()["marks"];
  ASSERT_EQ(marks.size(), 3U);
  EXPECT_EQ(marks[0].dump(),
            R"({"id":3,"kind":"membership","step":7,"time":1700000000,"warning":true,)"
            R"("what":"<b>as it is</b>"})");
  EXPECT_EQ(marks[1]["kind"], "checkpoint");
  EXPECT_EQ(marks[2]["kind"], "plan");
}

}  // namespace
}  // namespace paceline
