#include "controller/core/recovery/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr int kBackward = 3;
constexpr int kCommunication = 4;

RankState Ended(int rank, FailureKind failure, int phase, absl::Duration in_phase) {
  RankState state;
  state.slot = {NodeName("node" + std::to_string(rank)), 0};
  state.report.id.rank = Rank(rank);
  state.report.exit = TrainerExit();
  state.report.exit->failure = failure;
  state.report.exit->phase = phase;
  state.report.exit->in_phase = in_phase;
  state.report.exit->step = 7;
  return state;
}

JobFailure Echo() {
  JobFailure echo;
  echo.exit.failure = FailureKind::kCollective;
  echo.exit.message = "timed out";
  return echo;
}

TEST(BlameTest, RankThatTheOthersWaitedForIsNamed) {
  const auto stuck =
      FindStuckRank({Ended(0, FailureKind::kCollective, kCommunication, absl::Seconds(4)),
                     Ended(1, FailureKind::kNone, kBackward, absl::Seconds(5)),
                     Ended(2, FailureKind::kNone, kCommunication, absl::Seconds(4))},
                    Echo());
  ASSERT_TRUE(stuck.has_value());
  EXPECT_EQ(stuck->rank, Rank(1));
  EXPECT_EQ(stuck->node, NodeName("node1"));
  EXPECT_THAT(stuck->exit.message,
              ::testing::HasSubstr("in backward of step 7 for 5.0 s (rank 0: timed out)"));
}

TEST(BlameTest, RankThatWasJustBetweenStepsIsNot) {
  EXPECT_FALSE(FindStuckRank({Ended(0, FailureKind::kCollective, kCommunication, absl::Seconds(4)),
                              Ended(1, FailureKind::kNone, kBackward, absl::Milliseconds(50))},
                             Echo())
                   .has_value());
}

}  // namespace
}  // namespace paceline
