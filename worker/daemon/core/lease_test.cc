#include "worker/daemon/core/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLength = absl::Seconds(60);

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

class LeaseTest : public ::testing::Test {
 protected:
  LeaseTest() { lease_.SetLength(kLength); }
  Lease lease_;
};

TEST_F(LeaseTest, CountsFromWhenTheAnsweredReportWasSent) {
  lease_.Sent(1, At(10));
  lease_.Sent(2, At(11));
  EXPECT_TRUE(lease_.Grant(1));
  EXPECT_FALSE(lease_.HasRunOut(At(69.9)));
  EXPECT_TRUE(lease_.HasRunOut(At(70)));
  EXPECT_TRUE(lease_.Grant(2));
  EXPECT_EQ(lease_.end(), At(71));
}

TEST_F(LeaseTest, NoneThatWasNotGrantedRunsOut) {
  lease_.Sent(1, At(10));
  EXPECT_FALSE(lease_.HasRunOut(At(1e9)));
}

TEST_F(LeaseTest, RepeatedLateAndUnknownAnswersChangeNothing) {
  lease_.Sent(1, At(10));
  lease_.Sent(2, At(20));
  EXPECT_TRUE(lease_.Grant(2));
  for (const int64_t number : {1, 2, 3, 0}) EXPECT_FALSE(lease_.Grant(number)) << number;
  EXPECT_EQ(lease_.end(), At(80));
}

TEST_F(LeaseTest, AnswerOfAnEarlierSessionIsNotTakenForOneOfThis) {
  lease_.Sent(1, At(10));
  lease_.Grant(1);
  lease_.Sent(2, At(11));
  lease_.BeginSession();
  lease_.SetLength(kLength);
  EXPECT_FALSE(lease_.Grant(2));
  EXPECT_EQ(lease_.end(), At(70)) << "it holds beyond the session that granted it";
  lease_.Sent(1, At(30));
  EXPECT_TRUE(lease_.Grant(1));
  EXPECT_EQ(lease_.end(), At(90));
}

TEST_F(LeaseTest, LeasesThatAreOffDoNotRunOut) {
  lease_.Sent(1, At(10));
  lease_.Grant(1);
  lease_.SetLength(absl::ZeroDuration());
  EXPECT_FALSE(lease_.HasRunOut(At(1e9)));
  lease_.Sent(2, At(11));
  EXPECT_FALSE(lease_.Grant(2));
}

TEST_F(LeaseTest, UnansweredReportsAreForgottenInTheEnd) {
  for (int64_t number = 1; number <= 10000; ++number) {
    lease_.Sent(number, At(static_cast<double>(number)));
  }
  EXPECT_FALSE(lease_.Grant(1));
  EXPECT_TRUE(lease_.Grant(10000));
}

TEST_F(LeaseTest, LeaseOfAnEarlierDaemonRunsOutToo) {
  const Lease lease(kLength, At(70));
  EXPECT_FALSE(lease.HasRunOut(At(69)));
  EXPECT_TRUE(lease.HasRunOut(At(70)));
}

TEST_F(LeaseTest, IsHeldOnFromWhenTheFirstThatStandsByWasAsked) {
  lease_.Sent(1, At(10));
  lease_.Grant(1);
  EXPECT_FALSE(lease_.HoldOn(absl::InfinitePast(), At(20))) << "nothing is known";
  EXPECT_FALSE(lease_.HoldOn(At(10), At(20)));
  EXPECT_TRUE(lease_.HoldOn(At(15), At(20)));
  EXPECT_EQ(lease_.end(), At(75));
  EXPECT_FALSE(lease_.HoldOn(At(14), At(21))) << "it takes nothing back";
  EXPECT_EQ(lease_.end(), At(75));
  // A leader's answers count as before.
  lease_.Sent(2, At(30));
  EXPECT_TRUE(lease_.Grant(2));
  EXPECT_EQ(lease_.end(), At(90));
}

TEST_F(LeaseTest, OneThatHasRunOutIsNotHeldOn) {
  lease_.Sent(1, At(10));
  lease_.Grant(1);
  // The node's lease had run out, so a leader may have counted it as LOST before the last answer.
  EXPECT_FALSE(lease_.HoldOn(At(60), At(70)));
  EXPECT_TRUE(lease_.HasRunOut(At(70)));
  EXPECT_TRUE(lease_.HoldOn(At(60), At(69.9)));
  EXPECT_FALSE(lease_.HasRunOut(At(119.9)));
}

TEST_F(LeaseTest, NoneIsMadeOfWhatStandbysAnswer) {
  EXPECT_FALSE(lease_.HoldOn(At(10), At(11)));
  EXPECT_FALSE(lease_.HasRunOut(At(1e9)));
  lease_.Sent(1, At(10));
  lease_.Grant(1);
  lease_.SetLength(absl::ZeroDuration());
  EXPECT_FALSE(lease_.HoldOn(At(20), At(21)));
  EXPECT_FALSE(lease_.HasRunOut(At(1e9)));
}

TEST_F(LeaseTest, LeaseOfAnEarlierDaemonIsHeldOnToo) {
  Lease lease(kLength, At(70));
  EXPECT_TRUE(lease.HoldOn(At(65), At(66)));
  EXPECT_EQ(lease.end(), At(125));
}

// A leased member of a four-rank job, with its last step at time 0.
HeldTrainer Held(int rank, const std::string& job = "job-1") {
  HeldTrainer held;
  held.id = {JobId(job), Generation(1), Rank(rank)};
  held.generation = Generation(1);
  held.rank = rank;
  held.world_size = 4;
  held.leased = true;
  held.running = true;
  held.last_step = At(0);
  held.step_length = absl::Seconds(0.1);
  return held;
}

// Returns the ranks of the trainers to kill.
std::vector<int> Fenced(const std::vector<HeldTrainer>& trainers, double now) {
  std::vector<int> ranks;
  for (const FencedTrainer& fenced : ToFence(trainers, Lease(kLength, At(60)), At(now))) {
    ranks.push_back(fenced.id.rank.value());
  }
  return ranks;
}

TEST(ToFenceTest, NobodyWhileTheLeaseIsHeld) {
  EXPECT_THAT(Fenced({Held(0), Held(1), Held(2), Held(3)}, 59.9), IsEmpty());
}

TEST(ToFenceTest, ThoseThatMakeStepsWithOtherNodesLiveOn) {
  HeldTrainer steps = Held(0);
  steps.last_step = At(59);
  EXPECT_THAT(Fenced({steps, Held(1)}, 60), ElementsAre(1));
  EXPECT_THAT(Fenced({steps}, 118.9), IsEmpty());
  EXPECT_THAT(Fenced({steps}, 119), ElementsAre(0));
}

TEST(ToFenceTest, LongStepsAreNoStall) {
  HeldTrainer slow = Held(0);
  slow.step_length = absl::Seconds(40);
  EXPECT_THAT(Fenced({slow}, 119), IsEmpty());
  EXPECT_THAT(Fenced({slow}, 120), ElementsAre(0));
}

TEST(ToFenceTest, WhoWaitsMakesNoStep) {
  HeldTrainer waits = Held(0);
  waits.last_step = At(60);
  waits.waiting = true;
  EXPECT_THAT(Fenced({waits}, 60), ElementsAre(0));
}

TEST(ToFenceTest, JobWhollyOnThisNodeEndsEvenIfItMakesSteps) {
  std::vector<HeldTrainer> trainers = {Held(0), Held(1), Held(2), Held(3), Held(9)};
  for (HeldTrainer& trainer : trainers) trainer.last_step = At(60);
  trainers.back().rank = -1;
  EXPECT_THAT(Fenced(trainers, 60), ElementsAre(0, 1, 2, 3, 9));
  trainers.erase(trainers.begin());
  EXPECT_THAT(Fenced(trainers, 60), IsEmpty());
}

TEST(ToFenceTest, RanksThatHaveEndedHereAreOnThisNodeToo) {
  std::vector<HeldTrainer> trainers = {Held(0), Held(1), Held(2), Held(3)};
  for (HeldTrainer& trainer : trainers) trainer.last_step = At(60);
  trainers[2].running = false;
  EXPECT_THAT(Fenced(trainers, 60), ElementsAre(0, 1, 3));
}

TEST(ToFenceTest, OnlyMembersOfTheNewestGenerationCount) {
  std::vector<HeldTrainer> trainers = {Held(0), Held(1), Held(2), Held(3)};
  for (HeldTrainer& trainer : trainers) trainer.last_step = At(60);
  for (int i : {0, 1}) {
    trainers[i].generation = Generation(2);
    trainers[i].world_size = 3;
  }
  EXPECT_THAT(Fenced(trainers, 60), IsEmpty()) << "the third is elsewhere";
  trainers[2].generation = Generation(2);
  EXPECT_THAT(Fenced(trainers, 60), ElementsAre(0, 1, 2, 3));
}

TEST(ToFenceTest, EachJobIsSeenByItself) {
  std::vector<HeldTrainer> trainers = {Held(0), Held(1), Held(2, "job-2"), Held(3, "job-2")};
  for (HeldTrainer& trainer : trainers) trainer.last_step = At(60);
  trainers[2].world_size = trainers[3].world_size = 2;
  EXPECT_THAT(Fenced(trainers, 60), ElementsAre(2, 3));
}

TEST(ToFenceTest, SparesOfJobsOnOtherNodesAndThoseNotLeasedLiveOn) {
  HeldTrainer spare = Held(5);
  spare.rank = -1;
  HeldTrainer free = Held(0);
  free.leased = false;
  EXPECT_THAT(Fenced({spare, free, Held(1)}, 1000), ElementsAre(1));
}

TEST(ToFenceTest, ReasonSaysWhatRanOutAndWhyThisOneEnds) {
  const auto fenced = ToFence({Held(0)}, Lease(kLength, At(60)), At(61.5));
  ASSERT_EQ(fenced.size(), 1);
  EXPECT_THAT(fenced[0].why, HasSubstr("lease of 1m ran out 1.5s ago"));
  EXPECT_THAT(fenced[0].why, HasSubstr("no step for 1m1.5s"));
}

}  // namespace
}  // namespace paceline
