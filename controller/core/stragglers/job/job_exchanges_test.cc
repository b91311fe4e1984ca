// The exchanges of a job, from its steps to what people see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <random>

#include "controller/core/stragglers/job/stragglers.h"
#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

using ::testing::IsEmpty;

constexpr int kRanks = 16;
constexpr int kGroup = 4;

// Ranks average within their group every second step, and with all every eighth.
const Ladder kLadder = {{2, LadderScope::kSize, kGroup}, {8, LadderScope::kAll, 0}};

// 1 plus a bit of noise that depends only on the arguments.
double Noise(int who, int64_t step) {
  std::minstd_rand random(static_cast<uint32_t>(7919 * step + 31 * who + 1));
  random.discard(3);
  return 1 + 0.01 * (static_cast<double>(random() % 2001) / 1000 - 1);
}

// A transfer takes 20 ms, or 1.3 times as long in the group that begins with rank `slow`. Rank
// `late` comes 0.2 s after the others.
WatchedJob::Row Averaging(int slow, int late = -1) {
  return [=](const std::vector<RankState>& ranks, int64_t step) {
    std::vector<StepTimes> row(ranks.size());
    for (size_t r = 0; r < row.size(); ++r) {
      const int rank = static_cast<int>(r);
      const int first = rank - rank % kGroup;
      StepTimes& times = row[r];
      times.forward_s = times.backward_s = 0.05 * Noise(rank, step);
      if (step % 2 == 0) {
        const bool of_group = step % 8 != 0;
        const bool waits = rank != late && (!of_group || first == late - late % kGroup);
        times.averaging_ranks = of_group ? kGroup : kRanks;
        times.averaging_s = 0.02 * Noise(100 + first, step) * (of_group && first == slow ? 1.3 : 1);
        times.averaging_s += late >= 0 && waits ? 0.2 : 0;
      }
      times.total_s = times.forward_s + times.backward_s + times.averaging_s;
    }
    return row;
  };
}

JobRequest AveragingRequest() {
  JobRequest request = WatchedRequest(StragglerMode::kAuto, kRanks);
  request.strategy.has_ladder = true;
  request.strategy.gradient_group_size = 1;
  request.strategy.ladder = kLadder;
  request.steps = 10000000;  // No ladder is planned in the first twentieth.
  return request;
}

TEST(JobExchangesTest, SlowNetworkOfAGroupIsToldAndNothingIsDone) {
  WatchedJob watched(AveragingRequest(), kRanks + 4);
  const ReportedVerdicts& reported = watched.stragglers->Find(watched.id)->reported();
  watched.TrainAs(200, Averaging(-1, 9));
  EXPECT_THAT(reported.recent(), IsEmpty()) << "a late rank is no slow transfer";
  watched.TrainAs(100, Averaging(8, 9));
  ASSERT_EQ(reported.slow_exchanges().size(), 1U);
  const ReportedVerdict suspect = reported.slow_exchanges().begin()->second;
  EXPECT_EQ(suspect.verdict.kind, VerdictKind::kSuspect);
  EXPECT_EQ(suspect.verdict.cause, StragglerCause::kCommunication);
  EXPECT_NEAR(suspect.verdict.slowdown, 1.3, 0.03);
  EXPECT_EQ(suspect.exchange->level, 1);
  EXPECT_EQ(suspect.exchange->first_rank, 8);
  EXPECT_EQ(suspect.exchange->ranks, kGroup);
  EXPECT_EQ(suspect.exchange->waits_least, 9);
  watched.TrainAs(2000, Averaging(8, 9));
  EXPECT_EQ(reported.slow_exchanges().begin()->second.verdict.kind, VerdictKind::kPersistent);
  EXPECT_THAT(reported.slow(), IsEmpty());
  EXPECT_THAT(watched.policy().decisions(), IsEmpty());
  EXPECT_EQ(watched.policy().ignored(), 0) << "the policy is not asked";
  EXPECT_THAT(watched.events, IsEmpty());
}

TEST(JobExchangesTest, NewPlanVersionBeginsAnew) {
  WatchedJob watched(AveragingRequest(), kRanks + 4);
  const ReportedVerdicts& reported = watched.stragglers->Find(watched.id)->reported();
  const auto change = [&](const Ladder& ladder) {
    watched.Apply(PlanChanged{watched.id, JobPlan{{}, DescribeLadder(ladder), ladder}});
    for (int i = 0; i < 2; ++i) watched.Report();
  };
  watched.TrainAs(200, Averaging(-1));
  watched.TrainAs(100, Averaging(8));
  ASSERT_EQ(reported.slow_exchanges().size(), 1U);
  change({{8, LadderScope::kAll, 0}});
  EXPECT_THAT(reported.slow_exchanges(), IsEmpty());
  EXPECT_EQ(reported.recent().size(), 1U);
  watched.TrainAs(400, Averaging(8));
  EXPECT_THAT(reported.slow_exchanges(), IsEmpty()) << "there are no such groups any more";
  change(kLadder);
  watched.TrainAs(200, Averaging(-1));
  EXPECT_THAT(reported.slow_exchanges(), IsEmpty());
  watched.TrainAs(100, Averaging(12));
  EXPECT_EQ(reported.slow_exchanges().count({1, 12}), 1U);
}

TEST(JobExchangesTest, StepsThatAreNotTypicalDoNotCount) {
  WatchedJob watched(AveragingRequest(), kRanks + 4);
  const ReportedVerdicts& reported = watched.stragglers->Find(watched.id)->reported();
  watched.TrainAs(200, Averaging(-1));
  watched.TrainAs(200, [](const std::vector<RankState>& ranks, int64_t step) {
    std::vector<StepTimes> row = Averaging(8)(ranks, step);
    row[3].masked = true;
    return row;
  });
  EXPECT_THAT(reported.recent(), IsEmpty());
}

}  // namespace
}  // namespace paceline
