#include "bench/stragglers/judge.h"

#include <gtest/gtest.h>

namespace paceline::detect {
namespace {

// Eight ranks of one stage, two on a node. Rank 2 is slow from step 100 on, rank 5 from 50 to 90.
class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    spec_.stages = 1;
    for (int rank = 0; rank < 8; ++rank) ranks_.push_back({rank / 2, 0});
    Fault lasting;
    lasting.factor = 1.2;
    lasting.ranks = {2};
    lasting.begin = 100;
    lasting.end = 400;
    lasting.lasting = true;
    Fault transient = lasting;
    transient.ranks = {5};
    transient.begin = 50;
    transient.end = 90;
    transient.lasting = false;
    faults_ = {transient, lasting};
  }

  static Verdict Of(VerdictKind kind, int rank, int64_t step) {
    Verdict verdict;
    verdict.kind = kind;
    verdict.rank = rank;
    verdict.node = rank / 2;
    verdict.peer_group = 0;
    verdict.step = step;
    return verdict;
  }

  // Figures of these verdicts, each known at its own step.
  Figures Hear(const std::vector<Verdict>& verdicts) const {
    Judge judge(spec_, faults_, ranks_);
    for (const Verdict& verdict : verdicts) judge.Hear(verdict, verdict.step);
    return judge.Sum(8 * 400);
  }

  HistorySpec spec_;
  std::vector<Fault> faults_;
  std::vector<DetectorRank> ranks_;
};

TEST_F(JudgeTest, FindsAreCountedWithTheirTimes) {
  const Figures figures =
      Hear({Of(VerdictKind::kSuspect, 5, 54), Of(VerdictKind::kTransient, 5, 110),
            Of(VerdictKind::kSuspect, 2, 104), Of(VerdictKind::kPersistent, 2, 224)});
  EXPECT_EQ(figures.positives, 1);
  EXPECT_EQ(figures.found, 1);
  EXPECT_EQ(figures.right_suspects, 2);
  EXPECT_EQ(figures.wrong_suspects, 0);
  EXPECT_EQ(figures.to_suspect.Quantile(1), 5);
  EXPECT_EQ(figures.to_persistent.Quantile(1), 125);
  EXPECT_EQ(figures.transients_found, 1);
  EXPECT_EQ(figures.classed, 2);
  EXPECT_EQ(figures.classed_right, 2);
  EXPECT_EQ(figures.causes_right, 1);
  EXPECT_EQ(figures.wrong_drains, 0);
}

TEST_F(JudgeTest, ATimeIsThatOfTheReportsThatMadeItKnown) {
  Judge judge(spec_, faults_, ranks_);
  judge.Hear(Of(VerdictKind::kSuspect, 2, 104), 168);
  EXPECT_EQ(judge.Sum(1).to_suspect.Quantile(1), 69);
}

TEST_F(JudgeTest, SuspectsAreWrongBeforeAndLongAfterAFault) {
  const Figures figures =
      Hear({Of(VerdictKind::kSuspect, 2, 99), Of(VerdictKind::kSuspect, 5, 109),
            Of(VerdictKind::kSuspect, 5, 110), Of(VerdictKind::kSuspect, 3, 200)});
  EXPECT_EQ(figures.right_suspects, 1);
  EXPECT_EQ(figures.wrong_suspects, 3);
  EXPECT_EQ(figures.found, 0);
}

TEST_F(JudgeTest, CallingATransientPersistentIsAWrongDrain) {
  const Figures figures =
      Hear({Of(VerdictKind::kSuspect, 5, 55), Of(VerdictKind::kPersistent, 5, 85)});
  EXPECT_EQ(figures.wrong_drains, 1);
  EXPECT_EQ(figures.classed, 1);
  EXPECT_EQ(figures.classed_right, 0);
}

TEST_F(JudgeTest, ALastingFaultThatIsOnlySuspectIsNotClassedRight) {
  const Figures figures = Hear({Of(VerdictKind::kSuspect, 2, 110)});
  EXPECT_EQ(figures.classed, 1);
  EXPECT_EQ(figures.classed_right, 0);
}

TEST_F(JudgeTest, AnEndIsWrongWhileTheFaultGoesOn) {
  const std::vector<Verdict> ends = {
      Of(VerdictKind::kTransient, 5, 80), Of(VerdictKind::kTransient, 2, 99),
      Of(VerdictKind::kTransient, 2, 150), Of(VerdictKind::kRecovered, 2, 300)};
  EXPECT_EQ(Hear(ends).wrong_ends, 2);
  faults_[1].shape = Shape::kIntermittent;
  EXPECT_EQ(Hear(ends).wrong_ends, 0);
}

TEST_F(JudgeTest, ANodeIsRightIfARankOnItIsSlowForGood) {
  Verdict node = Of(VerdictKind::kNode, -1, 200);
  node.node = 1;
  EXPECT_EQ(Hear({node}).wrong_drains, 0);
  EXPECT_EQ(Hear({node}).found, 1);
  node.node = 2;  // The node of the transient, which is long over.
  EXPECT_EQ(Hear({node}).wrong_drains, 1);
}

TEST_F(JudgeTest, AGroupNeedsManyOfItsRanks) {
  Verdict group = Of(VerdictKind::kGroup, -1, 200);
  EXPECT_EQ(Hear({group}).wrong_groups, 1);
  Fault half = faults_[1];
  half.scope = Scope::kGroup;
  half.ranks = {0, 1, 3, 4};
  faults_.push_back(half);
  EXPECT_EQ(Hear({group}).wrong_groups, 0);
  EXPECT_EQ(Hear({group}).found, 1);
}

TEST_F(JudgeTest, RanksOfASlowGroupAreNotToBeDrained) {
  faults_[1].scope = Scope::kGroup;
  const Figures figures =
      Hear({Of(VerdictKind::kSuspect, 2, 110), Of(VerdictKind::kPersistent, 2, 300)});
  EXPECT_EQ(figures.wrong_suspects, 0);
  EXPECT_EQ(figures.wrong_drains, 1);
  EXPECT_EQ(figures.classed, 0);
}

TEST_F(JudgeTest, OneSlowStepIsNothingToTell) {
  faults_[1].shape = Shape::kOneOff;
  faults_[1].lasting = false;
  const Figures figures = Hear({Of(VerdictKind::kSuspect, 2, 100)});
  EXPECT_EQ(figures.positives, 0);
  EXPECT_EQ(figures.wrong_suspects, 1);
}

TEST_F(JudgeTest, AnAlarmOfAPeerIsASuspectAndADrain) {
  Judge judge(spec_, faults_, ranks_);
  judge.HearAlarm(5, 60);
  judge.HearAlarm(2, 120);
  const Figures figures = judge.Sum(1);
  EXPECT_EQ(figures.right_suspects, 2);
  EXPECT_EQ(figures.wrong_drains, 1);
  EXPECT_EQ(figures.classed_right, 1);
}

TEST_F(JudgeTest, ALongerLastStageMayBeNamed) {
  Verdict group = Of(VerdictKind::kGroup, -1, 30);
  group.cause = StragglerCause::kImbalance;
  spec_.stages = 2;
  group.peer_group = 1;
  EXPECT_EQ(Hear({group}).wrong_groups, 0);
  spec_.last_stage = 1;
  EXPECT_EQ(Hear({group}).wrong_groups, 1);
}

TEST_F(JudgeTest, IntervalsHoldTheFactorAndTheRanksOwnDifference) {
  faults_[1].usual = {1.01};
  Verdict persistent = Of(VerdictKind::kPersistent, 2, 224);
  persistent.slowdown_low = 1.205;
  persistent.slowdown_high = 1.22;
  Figures figures = Hear({persistent});
  EXPECT_EQ(figures.intervals, 1);
  EXPECT_EQ(figures.intervals_right, 1) << "1.212";
  persistent.slowdown_high = 1.211;
  EXPECT_EQ(Hear({persistent}).intervals_right, 0);
  faults_[1].cause = FaultCause::kData;
  EXPECT_EQ(Hear({persistent}).intervals, 0) << "the slowness of another quantity";
  persistent.cause = StragglerCause::kData;
  persistent.slowdown_low = 1.2;
  EXPECT_EQ(Hear({persistent}).intervals_right, 1) << "1.202";
  faults_[1].shape = Shape::kRamp;
  EXPECT_EQ(Hear({persistent}).intervals, 0) << "no single size";
  persistent.rank = 5;
  persistent.step = 80;
  figures = Hear({persistent});
  EXPECT_EQ(figures.intervals, 0) << "a transient's";
  EXPECT_EQ(figures.wrong_drains, 1);
}

}  // namespace
}  // namespace paceline::detect
