// How a rank in `drop` keeps pace with the others' rounds.
#include <gtest/gtest.h>

#include "slipstream/rank_fixture.h"

namespace paceline {
namespace {

using Comm = CommOrder::Kind;
using Compute = ComputeOrder::Kind;
using Copy = ComputeOrder::Copy;
using Mode = SlipstreamMode;

class RankRhythmTest : public RankTest {
 protected:
  // Starts three ranks that make a round, with these times of steps.
  void StartAndMakeARound(absl::Duration own, absl::Duration others) {
    ranks_ = 3;
    Start(Mode::kDrop);
    others_ = Ready();
    others_.step = others;
    for (int i = 0; i < 2; ++i) {  // The time of a step is sent after the first.
      BeginGradient();
      rank_->OnGradient(1, own, 1);
      Round(others_);
    }
  }
  void BeginGradient() {
    ASSERT_EQ(CopyNext(), Copy::kLoad);
    ASSERT_EQ(NextCompute().kind, Compute::kGradient);
  }
  // The others make a round without this rank, whose gradient comes `late` after it.
  void MissARound(absl::Duration late) {
    BeginGradient();
    Round(others_);
    now_ += late;
    rank_->OnGradient(1, kTestStep, 1);
  }
  void Poll(const RoundHeader& other) {
    while (NextComm().kind == Comm::kWait) now_ += absl::Milliseconds(1);
    Exchange(other);
  }

  RoundHeader others_;
};

TEST_F(RankRhythmTest, AGradientIsComingUntilItIsOverdue) {
  StartAndMakeARound(kTestStep, kTestStep);
  Poll(RoundHeader());
  EXPECT_EQ(rank_->sums().coming, 0) << "not begun";
  BeginGradient();
  Poll(RoundHeader());
  EXPECT_EQ(rank_->sums().coming, 1);
  now_ += 1.2 * kTestStep;
  Poll(RoundHeader());
  EXPECT_EQ(rank_->sums().coming, 0) << "it has stalled";
}

TEST_F(RankRhythmTest, ALateGradientIsNotComing) {
  StartAndMakeARound(kTestStep, kTestStep);
  BeginGradient();
  Round(others_);
  Poll(RoundHeader());
  EXPECT_EQ(rank_->sums().coming, 0);
}

TEST_F(RankRhythmTest, WhoIsLateBeginsWithTheNextRound) {
  StartAndMakeARound(kTestStep, kTestStep);
  MissARound(0.5 * kTestStep);
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  Round(others_);
  BeginGradient();
}

TEST_F(RankRhythmTest, WhoIsLateByLittleBeginsAtOnce) {
  StartAndMakeARound(kTestStep, kTestStep);
  MissARound(0.05 * kTestStep);
  BeginGradient();
}

TEST_F(RankRhythmTest, WhoHasLoadedTheModelBeginsHoweverLongThatTook) {
  StartAndMakeARound(kTestStep, kTestStep);
  EXPECT_EQ(CopyNext(), Copy::kLoad);
  now_ += 0.5 * kTestStep;
  EXPECT_EQ(NextCompute().kind, Compute::kGradient);
}

TEST_F(RankRhythmTest, NobodyWaitsForARoundThatDoesNotCome) {
  StartAndMakeARound(kTestStep, kTestStep);
  MissARound(0.5 * kTestStep);
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  now_ += 2 * kTestStep;
  BeginGradient();
}

TEST_F(RankRhythmTest, NobodyWaitsForARoundThatNoMajorityIsComingTo) {
  StartAndMakeARound(kTestStep, kTestStep);
  MissARound(0.5 * kTestStep);
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  Poll(RoundHeader());
  BeginGradient();
}

TEST_F(RankRhythmTest, ASlowRankBeginsAtOnce) {
  StartAndMakeARound(3 * kTestStep, kTestStep);
  MissARound(0.5 * kTestStep);
  BeginGradient();
}

}  // namespace
}  // namespace paceline
