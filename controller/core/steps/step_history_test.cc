#include "controller/core/steps/step_history.h"

#include <gtest/gtest.h>

#include <vector>

#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

StepTimes Step(int64_t step, double own) {
  StepTimes times;
  times.step = step;
  times.forward_s = own;
  times.total_s = own;
  return times;
}

class StepHistoryTest : public ::testing::Test {
 protected:
  void Follow() {
    Actions actions;
    actions.show_jobs.insert(watched_.id);
    history_.Follow(*watched_.cluster, actions, watched_.now);
  }
  void Tell(int rank, const std::vector<StepTimes>& steps) {
    const RankState& state = watched_.job().ranks[static_cast<size_t>(rank)];
    history_.TakeSteps(*watched_.cluster, state.slot.node, state.report.id, steps);
  }

  WatchedJob watched_{WatchedRequest(StragglerMode::kOff, /*ranks=*/4)};
  StepHistory history_;
};

TEST_F(StepHistoryTest, KeepsTheStepsOfTheRanksThatTrain) {
  EXPECT_EQ(history_.Find(watched_.id), nullptr);
  Follow();
  for (int rank = 0; rank < 4; ++rank) Tell(rank, {Step(0, 1), Step(1, 1 + rank)});
  const MeasuredJob* measured = history_.Find(watched_.id);
  ASSERT_NE(measured, nullptr);
  const StepTable table = measured->steps->View(0, 100);
  EXPECT_EQ(table.steps, 2);
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_NEAR(table.rows[3].own_s[1], 4, 0.01);
  EXPECT_EQ(history_.rows(), 4);
}

TEST_F(StepHistoryTest, DropsWhatIsOfNoMemberOrCannotBeTrue) {
  Follow();
  const TrainerId id = watched_.job().ranks[0].report.id;
  TrainerId other = id;
  other.generation = Generation(99);
  const NodeName home = watched_.job().ranks[0].slot.node;
  const std::vector<StepTimes> steps = {Step(3, 1)};
  history_.TakeSteps(*watched_.cluster, NodeName("elsewhere"), id, steps);
  history_.TakeSteps(*watched_.cluster, home, other, steps);
  other.job = JobId("job-unknown");
  history_.TakeSteps(*watched_.cluster, home, other, steps);
  StepTimes negative = Step(3, 1);
  negative.total_s = -1;
  Tell(0, {negative, Step(-1, 1), Step(watched_.job().request.steps, 1)});
  EXPECT_EQ(history_.Find(watched_.id)->steps->newest_step(), -1);
}

TEST_F(StepHistoryTest, IsForgottenSomeMinutesAfterTheEnd) {
  Follow();
  watched_.Apply(CancelRequested{watched_.id, "enough", absl::Seconds(1)});
  watched_.Report();
  ASSERT_TRUE(watched_.job().ended_already());
  Follow();
  watched_.now.steady += absl::Minutes(9);
  Follow();
  EXPECT_NE(history_.Find(watched_.id), nullptr);
  watched_.now.steady += absl::Minutes(2);
  history_.Follow(*watched_.cluster, {}, watched_.now);
  EXPECT_EQ(history_.Find(watched_.id), nullptr);
  EXPECT_EQ(history_.rows(), 0);
}

TEST_F(StepHistoryTest, IsForgottenWithTheJob) {
  Follow();
  Actions actions;
  actions.delete_jobs.insert(watched_.id);
  history_.Follow(*watched_.cluster, actions, watched_.now);
  EXPECT_EQ(history_.Find(watched_.id), nullptr);
}

TEST_F(StepHistoryTest, AJobWithTheIdOfADeletedOneBeginsAnew) {
  Follow();
  Tell(0, {Step(3, 1)});
  Actions actions;
  actions.delete_jobs.insert(watched_.id);
  history_.Follow(*watched_.cluster, actions, watched_.now);
  Tell(0, {Step(4, 1)});
  EXPECT_EQ(history_.Find(watched_.id), nullptr);
  Follow();
  EXPECT_EQ(history_.Find(watched_.id)->steps->newest_step(), -1);
  EXPECT_EQ(history_.rows(), 4);
  Tell(0, {Step(5, 1)});
  EXPECT_EQ(history_.Find(watched_.id)->steps->newest_step(), 5);
}

TEST_F(StepHistoryTest, RanksShareRowsWhenThereAreTooFew) {
  StepHistoryOptions options;
  options.max_rows = 3;
  StepHistory small(options);
  Actions actions;
  actions.show_jobs.insert(watched_.id);
  small.Follow(*watched_.cluster, actions, watched_.now);
  EXPECT_EQ(small.rows(), 2);
  EXPECT_EQ(small.Find(watched_.id)->steps->View(0, 100).ranks_per_row, 2);
}

TEST_F(StepHistoryTest, JobsBeyondTheMostAreNotKept) {
  StepHistoryOptions options;
  options.max_jobs = 0;
  StepHistory none(options);
  Actions actions;
  actions.show_jobs.insert(watched_.id);
  none.Follow(*watched_.cluster, actions, watched_.now);
  EXPECT_EQ(none.Find(watched_.id), nullptr);
}

TEST_F(StepHistoryTest, CurvesAreMadeOfPeriodsAndOfWhatRanksReport) {
  int64_t reported_step = 0;
  StepHistory history({}, [&](const Job&) {
    return std::vector<CurveValue>{{{/*reported=*/true, "accuracy"}, reported_step, 0.5}};
  });
  Actions actions;
  actions.show_jobs.insert(watched_.id);
  history.Follow(*watched_.cluster, actions, watched_.now);
  for (int64_t step = 1; step <= 3; ++step) {
    const std::vector<RankState> ranks = watched_.job().ranks;
    for (const RankState& rank : ranks) {
      TrainerReport report = rank.report;
      report.progress.step = 10 * step;
      report.progress.loss = 1.0 / static_cast<double>(step);
      watched_.Apply(NodeReported{rank.slot.node, {report}});
      const StepTimes times = Step(10 * step - 1, 2);
      history.TakeSteps(*watched_.cluster, rank.slot.node, rank.report.id, {&times, 1});
    }
    reported_step = step < 3 ? 9 : 29;
    watched_.Wait(absl::Seconds(1));
    history.Follow(*watched_.cluster, actions, watched_.now);
  }
  const JobCurves* curves = history.curves().Find(watched_.id);
  ASSERT_NE(curves, nullptr);
  EXPECT_EQ(curves->since_step, 10);
  const Curve& loss = curves->curves.at({false, curve_name::kLoss});
  ASSERT_EQ(loss.points().size(), 3U);
  EXPECT_EQ(loss.points()[1].step, 20);
  EXPECT_NEAR(loss.points()[1].sum, 0.5, 1e-6);
  EXPECT_NEAR(curves->curves.at({false, curve_name::kStepS}).points()[0].sum, 2, 1e-6);
  EXPECT_EQ(curves->curves.at({true, "accuracy"}).points().size(), 2U);
  EXPECT_EQ(curves->curves.count({false, curve_name::kMfu}), 0U) << "it is not known";
}

TEST_F(StepHistoryTest, CurvesOutliveTheStepsOfAJobThatHasEnded) {
  Follow();
  const std::vector<RankState> ranks = watched_.job().ranks;
  for (const RankState& rank : ranks) {
    TrainerReport report = rank.report;
    report.progress.step = 7;
    report.progress.loss = 0.25;
    watched_.Apply(NodeReported{rank.slot.node, {report}});
  }
  watched_.Apply(CancelRequested{watched_.id, "enough", absl::ZeroDuration()});
  for (int i = 0; i < 8 && !watched_.job().ended_already(); ++i) {
    watched_.Wait(absl::Seconds(1));
    watched_.Apply(TimePassed{});
  }
  ASSERT_TRUE(watched_.job().ended_already());
  Follow();
  watched_.now.steady += absl::Hours(1);
  history_.Follow(*watched_.cluster, {}, watched_.now);
  EXPECT_EQ(history_.Find(watched_.id), nullptr);
  const JobCurves* curves = history_.curves().Find(watched_.id);
  ASSERT_NE(curves, nullptr);
  EXPECT_EQ(curves->curves.at({false, curve_name::kLoss}).points().back().step, 7)
      << "the values of the end count, however short the last period was";
  Actions actions;
  actions.delete_jobs.insert(watched_.id);
  history_.Follow(*watched_.cluster, actions, watched_.now);
  EXPECT_EQ(history_.curves().Find(watched_.id), nullptr);
}

TEST_F(StepHistoryTest, NextGenerationIsFollowedWithItsOwnRanks) {
  Follow();
  for (int rank = 0; rank < 4; ++rank) Tell(rank, {Step(0, 1), Step(1, 1)});
  const Generation before = watched_.job().generation;
  // A spare takes the place of a lost rank.
  watched_.Apply(RanksGivenUp{watched_.id, watched_.job().ranks[1].slot.node, "it is slow"});
  for (int i = 0; i < 8 && watched_.job().state != JobState::kRunning; ++i) watched_.Report();
  for (int i = 0; i < 8; ++i) watched_.Report();
  ASSERT_EQ(watched_.job().state, JobState::kRunning);
  ASSERT_NE(watched_.job().generation, before);
  // The new generation is not followed yet; its ranks are others.
  Tell(0, {Step(2, 9)});
  EXPECT_EQ(history_.Find(watched_.id)->steps->newest_step(), 1);
  Follow();
  const int ranks = static_cast<int>(watched_.job().ranks.size());
  for (int rank = 0; rank < ranks; ++rank) Tell(rank, {Step(2, 5)});
  const StepTable table = history_.Find(watched_.id)->steps->View(0, 100);
  EXPECT_EQ(table.ranks, ranks);
  EXPECT_NEAR(table.rows[1].own_s.back(), 5, 0.01);
  EXPECT_EQ(history_.rows(), ranks);
}

}  // namespace
}  // namespace paceline
