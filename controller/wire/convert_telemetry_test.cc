#include "controller/wire/convert_telemetry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/stragglers/job/testing/straggler_testing.h"
#include "controller/wire/convert.h"

namespace paceline {
namespace {

class ConvertTelemetryTest : public ::testing::Test {
 protected:
  ConvertTelemetryTest() { Follow(); }

  void Follow() {
    Actions actions;
    actions.show_jobs.insert(watched_.id);
    history_.Follow(*watched_.cluster, actions, watched_.now);
  }
  // Plays a synchronous step; each rank takes its own number of seconds.
  void Train(int64_t step, const std::vector<double>& own) {
    const double longest = *std::max_element(own.begin(), own.end());
    for (size_t r = 0; r < own.size(); ++r) {
      StepTimes times;
      times.step = step;
      times.forward_s = own[r];
      times.communication_s = longest - own[r];
      times.total_s = longest;
      const RankState& rank = watched_.job().ranks[r];
      history_.TakeSteps(*watched_.cluster, rank.slot.node, rank.report.id, {&times, 1});
    }
    watched_.Wait(absl::Seconds(1));
    Follow();
  }
  const MeasuredJob* Known() const { return history_.Find(watched_.id); }

  WatchedJob watched_{WatchedRequest(StragglerMode::kAdvise, /*ranks=*/4)};
  StepHistory history_;
};

TEST_F(ConvertTelemetryTest, NothingIsKnownOfAJobWithoutHistory) {
  const Job& job = watched_.job();
  EXPECT_EQ(DescribeTelemetry(job, nullptr, nullptr).step_s(), 0);
  EXPECT_EQ(DescribeRanks(job, nullptr, nullptr, 0).ranks_size(), 4);
  EXPECT_EQ(DescribeSteps(job, nullptr, 0, 10).rows_size(), 0);
  EXPECT_EQ(DescribeSeries(job, nullptr, absl::InfinitePast()).points_size(), 0);
}

TEST_F(ConvertTelemetryTest, TellsRanksWithTheirWaitsTheSlowestFirst) {
  for (int64_t step = 0; step < 5; ++step) Train(step, {0.5, 1, 2, 1});
  const v1::JobRanks all = DescribeRanks(watched_.job(), Known(), nullptr, 0);
  ASSERT_EQ(all.ranks_size(), 4);
  EXPECT_EQ(all.rank_count(), 4);
  EXPECT_NEAR(all.median_own_s(), 1, 0.01);
  EXPECT_NEAR(all.median_step_s(), 2, 0.01);
  EXPECT_EQ(all.ranks(2).node(), watched_.NodeOf(2));
  EXPECT_NEAR(all.ranks(0).wait_share(), 0.75, 0.01);
  EXPECT_EQ(all.ranks(0).state(), v1::TRAINER_RUNNING);
  const v1::JobRanks slowest = DescribeRanks(watched_.job(), Known(), nullptr, 2);
  ASSERT_EQ(slowest.ranks_size(), 2);
  EXPECT_EQ(slowest.ranks(0).rank(), 2);
  EXPECT_EQ(slowest.ranks(1).rank(), 1);
  EXPECT_EQ(slowest.rank_count(), 4);
}

TEST_F(ConvertTelemetryTest, TellsWhenARankWhoseNodeDoesNotAnswerWasHeardOfLast) {
  Job job = watched_.job();
  job.ranks[1].heard_wall = absl::FromUnixSeconds(1000);
  EXPECT_FALSE(DescribeRanks(job, nullptr, nullptr, 0).ranks(1).has_last_heard());
  EXPECT_FALSE(ToProto(job, absl::FromUnixSeconds(1060)).ranks(1).has_last_heard());
  job.ranks[1].unreachable_since = absl::FromUnixSeconds(1010);
  const v1::JobRanks ranks = DescribeRanks(job, nullptr, nullptr, 0);
  EXPECT_EQ(ranks.ranks(1).last_heard().seconds(), 1000);
  EXPECT_FALSE(ranks.ranks(0).has_last_heard());
  EXPECT_EQ(ToProto(job, absl::FromUnixSeconds(1060)).ranks(1).last_heard().seconds(), 1000);
}

TEST_F(ConvertTelemetryTest, TellsStepsByRow) {
  for (int64_t step = 0; step < 3; ++step) Train(step, {1, 1, 2, 1});
  const v1::JobSteps steps = DescribeSteps(watched_.job(), Known(), 2, 2);
  EXPECT_EQ(steps.first_step(), 1);
  EXPECT_EQ(steps.steps(), 2);
  EXPECT_EQ(steps.ranks_per_row(), 2);
  ASSERT_EQ(steps.rows_size(), 2);
  EXPECT_EQ(steps.rows(1).first_rank(), 2);
  EXPECT_EQ(steps.rows(1).nodes_size(), 2);
  EXPECT_NEAR(steps.rows(1).own_s(1), 2, 0.01);
  EXPECT_NEAR(steps.rows(0).own_s(1), 1, 0.01);
}

TEST_F(ConvertTelemetryTest, TellsTheLastMinutes) {
  for (int64_t step = 0; step < 20; ++step) Train(step, {1, 1, 3, 1});
  const v1::JobSeries series = DescribeSeries(watched_.job(), Known(), absl::InfinitePast());
  ASSERT_GT(series.points_size(), 15);
  EXPECT_EQ(series.period_s(), 1);
  EXPECT_NEAR(series.points(5).step_s(), 3, 0.01);
  EXPECT_NEAR(series.points(5).wait_share(), 0.5, 0.01);
  const v1::JobSeries last =
      DescribeSeries(watched_.job(), Known(), watched_.now.wall - absl::Seconds(3.5));
  EXPECT_EQ(last.points_size(), 4);
  const v1::JobTelemetry telemetry = DescribeTelemetry(watched_.job(), Known(), nullptr);
  EXPECT_NEAR(telemetry.step_s(), 3, 0.01);
  EXPECT_NEAR(telemetry.wait_share(), 0.5, 0.01);
  EXPECT_EQ(telemetry.recent_step_s_size(), series.points_size());
}

// As a rank reports them that has done this step.
Figures Reported(int64_t step, const std::vector<std::pair<std::string, double>>& numbers) {
  v1::RankFigures figures;
  for (const auto& [name, value] : numbers) {
    v1::ReportedNumber& number = *figures.add_reported();
    number.set_name(name);
    number.set_value(value);
    number.set_step(step);
  }
  return FromProto(figures);
}

TEST_F(ConvertTelemetryTest, TellsWhatScriptsReportOverTheRanksThatDo) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Job job = watched_.job();
  job.ranks[0].report.figures = Reported(9, {{"loss", 1}, {"accuracy", 0.5}, {"norm", kNan}});
  job.ranks[1].report.figures = Reported(10, {{"loss", 4}, {"norm", 2}});
  job.ranks[2].report.figures = Reported(10, {{"loss", 100}, {"late", 1}});
  job.ranks[2].unreachable_since = absl::FromUnixSeconds(1010);
  const v1::JobSeries series = DescribeSeries(job, nullptr, absl::InfiniteFuture());
  ASSERT_EQ(series.reported_size(), 3) << series.ShortDebugString();
  EXPECT_EQ(series.reported(0).name(), "accuracy");
  EXPECT_EQ(series.reported(0).mean(), 0.5);
  EXPECT_EQ(series.reported(0).step(), 9);
  EXPECT_EQ(series.reported(0).ranks(), 1);
  const v1::JobNumber& loss = series.reported(1);
  EXPECT_EQ(loss.name(), "loss");
  EXPECT_EQ(loss.mean(), 2.5);
  EXPECT_EQ(loss.least(), 1);
  EXPECT_EQ(loss.most(), 4);
  EXPECT_EQ(loss.ranks(), 2);
  EXPECT_EQ(loss.step(), 10);
  EXPECT_TRUE(std::isnan(series.reported(2).mean())) << "it shows that a rank has diverged";
  EXPECT_EQ(series.reported(2).least(), 2);
  for (RankState& rank : job.ranks) rank.unreachable_since = absl::FromUnixSeconds(1010);
  EXPECT_EQ(DescribeSeries(job, nullptr, absl::InfinitePast()).reported_size(), 4)
      << "nobody knows more";
}

TEST_F(ConvertTelemetryTest, CurvesGetTheNumbersOfTheFirstRanksAndTheLearningRateOnce) {
  Job job = watched_.job();
  const RankState rank = job.ranks[0];
  job.ranks.assign(kRanksRead + 1, rank);
  v1::RankFigures figures;
  figures.set_step(10);
  figures.set_learning_rate(0.25);
  figures.set_grad_norm(2);
  for (size_t i = 0; i < 2; ++i) job.ranks[i].report.figures = FromProto(figures);
  job.ranks[2].report.figures = Reported(9, {{"accuracy", 0.5}});
  job.ranks[3].report.figures = Reported(9, {{"accuracy", 1}});
  job.ranks[kRanksRead].report.figures = Reported(9, {{"late", 1}});
  const std::vector<CurveValue> values = NumbersOf(job);
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].name.name, "learning_rate");
  EXPECT_FALSE(values[0].name.reported);
  EXPECT_EQ(values[0].step, 10);
  EXPECT_EQ(values[0].value, 0.25);
  EXPECT_EQ(values[1].name.name, "grad_norm");
  EXPECT_EQ(values[2].name.name, "accuracy");
  EXPECT_TRUE(values[2].name.reported);
  EXPECT_EQ(values[2].step, 9);
  EXPECT_EQ(values[2].value, 0.75);
}

TEST_F(ConvertTelemetryTest, CurvesGetALearningRateOfZeroFromWhoeverKnowsIt) {
  Job job = watched_.job();
  v1::RankFigures figures;
  figures.set_step(1);
  for (RankState& rank : job.ranks) rank.report.figures = FromProto(figures);
  EXPECT_TRUE(NumbersOf(job).empty()) << "an earlier release leaves out 0";
  figures.set_learning_rate(0);  // A warm-up begins.
  job.ranks[1].report.figures = FromProto(figures);
  const std::vector<CurveValue> values = NumbersOf(job);
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0].name.name, "learning_rate");
  EXPECT_EQ(values[0].step, 1);
  EXPECT_EQ(values[0].value, 0);
}

TEST_F(ConvertTelemetryTest, TellsCurvesWithTheirGaps) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Job& job = watched_.job();
  EXPECT_FALSE(DescribeCurves(job, nullptr).has_since());
  RunCurves curves;
  curves.Add(watched_.id, 7, {{{false, "loss"}, 7, 2}, {{true, "loss"}, 5, -1}}, watched_.now);
  curves.Add(watched_.id, 9, {{{false, "loss"}, 9, kNan}}, watched_.now);
  const v1::JobCurves shown = DescribeCurves(job, curves.Find(watched_.id));
  EXPECT_EQ(shown.job_id(), watched_.id.value());
  EXPECT_EQ(FromProto(shown.since()), watched_.now.wall);
  EXPECT_EQ(shown.since_step(), 7);
  ASSERT_EQ(shown.curves_size(), 2);
  const v1::Curve& loss = shown.curves(0);
  EXPECT_FALSE(loss.reported());
  EXPECT_EQ(loss.width(), 1);
  ASSERT_EQ(loss.points_size(), 2);
  EXPECT_EQ(loss.points(0).mean(), 2);
  EXPECT_EQ(loss.points(0).values(), 1);
  EXPECT_EQ(loss.points(1).step(), 9);
  EXPECT_EQ(loss.points(1).values(), 0);
  EXPECT_EQ(loss.points(1).not_finite(), 1);
  EXPECT_TRUE(shown.curves(1).reported());
  EXPECT_EQ(shown.curves(1).points(0).most(), -1);
}

TEST_F(ConvertTelemetryTest, OfAnEndedJobTheLastNumbersAreToldWithTheTimeOfItsEnd) {
  Job job = watched_.job();
  for (RankState& rank : job.ranks) {
    TrainerReport report = rank.report;
    report.figures = Reported(24, {{"accuracy", 0.5}});
    report.state = TrainerState::kExited;
    report.exit = TrainerExit();
    EXPECT_FALSE(DescribeSeries(job, nullptr, absl::InfinitePast()).has_end_time());
    ApplyReport(job, rank.slot.node, report, watched_.now);
  }
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.reason;
  const v1::JobSeries series = DescribeSeries(job, nullptr, absl::InfiniteFuture());
  EXPECT_EQ(FromProto(series.end_time()), job.ended);
  ASSERT_EQ(series.reported_size(), 1);
  EXPECT_EQ(series.reported(0).mean(), 0.5);
  EXPECT_EQ(series.reported(0).step(), 24);
  EXPECT_EQ(series.reported(0).ranks(), 4);
}

TEST_F(ConvertTelemetryTest, NamesThatRanksReportAreBounded) {
  Job job = watched_.job();
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    std::vector<std::pair<std::string, double>> numbers;
    for (int i = 0; i < 20; ++i) numbers.emplace_back(absl::StrCat("of_", rank, "_", i), 1);
    job.ranks[rank].report.figures = Reported(1, numbers);
  }
  EXPECT_EQ(DescribeSeries(job, nullptr, absl::InfinitePast()).reported_size(), kNumbersReported);
}

TEST(DescribeTelemetryTest, TellsWhoIsSlowAndWhatWasDecided) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  watched.Train(600, SlowFrom(watched.NodeOf(2), 200));
  const JobStragglers* stragglers = watched.stragglers->Find(watched.id);
  const v1::JobTelemetry telemetry = DescribeTelemetry(watched.job(), nullptr, stragglers);
  EXPECT_EQ(telemetry.slow_count(), 1);
  ASSERT_EQ(telemetry.slow_size(), 1);
  EXPECT_EQ(telemetry.slow(0).rank(), 2);
  EXPECT_FALSE(telemetry.decision().empty());
  EXPECT_EQ(telemetry.decision_state(), v1::DECISION_ADVISED);
  const v1::JobRanks ranks = DescribeRanks(watched.job(), nullptr, stragglers, 0);
  EXPECT_TRUE(ranks.ranks(2).has_verdict());
  EXPECT_FALSE(ranks.ranks(1).has_verdict());
}

}  // namespace
}  // namespace paceline
