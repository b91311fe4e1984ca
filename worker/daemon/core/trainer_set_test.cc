#include "worker/daemon/core/trainer_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::UnixEpoch();

TrainerId Id(int rank) { return {JobId("job-1"), Generation(1), Rank(rank)}; }

// The actions as text, for example "start 0".
std::vector<std::string> Text(const std::vector<TrainerAction>& actions) {
  std::vector<std::string> text;
  for (const TrainerAction& action : actions) {
    static const char* const kNames[] = {"start ", "skip ", "term ", "kill ", "forget ", "delete "};
    const TrainerId id = std::visit([](const auto& a) { return a.id; }, action);
    text.push_back(kNames[action.index()] + std::to_string(id.rank.value()));
  }
  return text;
}

class TrainerSetTest : public ::testing::Test {
 protected:
  std::vector<std::string> Step(const TrainerEvent& event) { return Text(set_.Step(event, now_)); }
  std::vector<std::string> Plan(std::vector<WantedTrainer> trainers) {
    return Step(PlanReceived{std::move(trainers)});
  }
  std::vector<std::string> Tick() { return Text(set_.Tick(now_)); }

  absl::Time now_ = kStart;
  TrainerSet set_{{absl::Seconds(5), 2}};
};

TEST_F(TrainerSetTest, StartsWhatThePlanListsOnce) {
  EXPECT_THAT(Plan({{Id(0), {}}, {Id(1), {}}}), ElementsAre("start 0", "start 1"));
  EXPECT_THAT(Plan({{Id(0), {}}, {Id(1), {}}}), IsEmpty());
  EXPECT_THAT(Step(TrainerEnded{Id(0)}), IsEmpty());
  EXPECT_THAT(Plan({{Id(0), {}}, {Id(1), {}}}), IsEmpty());
}

TEST_F(TrainerSetTest, StopTerminatesThenKillsAfterTheGrace) {
  Plan({{Id(0), {}}});
  EXPECT_FALSE(set_.StopRequested(Id(0)));
  EXPECT_THAT(Plan({{Id(0), absl::Seconds(3)}}), ElementsAre("term 0"));
  EXPECT_TRUE(set_.StopRequested(Id(0)));
  EXPECT_EQ(set_.NextDeadline(), kStart + absl::Seconds(3));
  now_ += absl::Seconds(2);
  EXPECT_THAT(Plan({{Id(0), absl::Seconds(3)}}), IsEmpty());
  EXPECT_THAT(Tick(), IsEmpty());
  now_ += absl::Seconds(1);
  EXPECT_THAT(Tick(), ElementsAre("kill 0"));
  EXPECT_EQ(set_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(TrainerSetTest, EndWithinTheGraceNeedsNoKill) {
  Plan({{Id(0), {}}});
  Plan({{Id(0), absl::Seconds(3)}});
  Step(TrainerEnded{Id(0)});
  now_ += absl::Seconds(4);
  EXPECT_EQ(set_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_THAT(Tick(), IsEmpty());
}

TEST_F(TrainerSetTest, LaterPlanMayShortenTheGraceOnly) {
  Plan({{Id(0), {}}});
  Plan({{Id(0), absl::Seconds(10)}});
  Plan({{Id(0), absl::Seconds(2)}});
  EXPECT_EQ(set_.NextDeadline(), kStart + absl::Seconds(2));
  Plan({{Id(0), absl::Seconds(10)}});
  EXPECT_EQ(set_.NextDeadline(), kStart + absl::Seconds(2));
}

TEST_F(TrainerSetTest, ZeroGraceKillsAtOnce) {
  Plan({{Id(0), {}}});
  EXPECT_THAT(Plan({{Id(0), absl::ZeroDuration()}}), ElementsAre("kill 0"));
  EXPECT_EQ(set_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_TRUE(set_.StopRequested(Id(0)));
}

TEST_F(TrainerSetTest, UnlistedTrainerIsStoppedThenForgotten) {
  Plan({{Id(0), {}}});
  EXPECT_THAT(Plan({}), ElementsAre("term 0"));
  EXPECT_EQ(set_.NextDeadline(), kStart + absl::Seconds(5));
  EXPECT_THAT(Step(TrainerEnded{Id(0)}), ElementsAre("forget 0"));
}

TEST_F(TrainerSetTest, EndedTrainerIsForgottenWhenAPlanOmitsIt) {
  Plan({{Id(0), {}}});
  EXPECT_THAT(Step(TrainerEnded{Id(0)}), IsEmpty());
  EXPECT_THAT(Plan({}), ElementsAre("forget 0"));
}

TEST_F(TrainerSetTest, StopOfWhatNeverWasIsRecorded) {
  EXPECT_THAT(Plan({{Id(0), absl::Seconds(3)}}), ElementsAre("skip 0"));
  EXPECT_THAT(Plan({{Id(0), absl::Seconds(3)}}), IsEmpty());
  EXPECT_THAT(Plan({}), ElementsAre("forget 0"));
}

TEST_F(TrainerSetTest, WhatIsFoundRunsOnUntilAPlanSaysOtherwise) {
  EXPECT_THAT(Step(TrainerFound{Id(0), true, false}), IsEmpty());
  EXPECT_THAT(Step(TrainerFound{Id(1), false, false}), IsEmpty());
  EXPECT_THAT(Step(TrainerFound{Id(2), true, true}), IsEmpty());
  EXPECT_TRUE(set_.StopRequested(Id(2)));
  now_ += absl::Hours(1);
  EXPECT_THAT(Tick(), IsEmpty());
  EXPECT_THAT(Step(TrainerEnded{Id(0)}), IsEmpty());
  EXPECT_THAT(Plan({{Id(1), {}}}), ElementsAre("term 2", "forget 0"));
}

TEST_F(TrainerSetTest, StopAskedByAnEarlierDaemonIsAskedAgainWhenPlanned) {
  Step(TrainerFound{Id(0), true, true});
  EXPECT_THAT(Plan({{Id(0), absl::Seconds(1)}}), ElementsAre("term 0"));
  EXPECT_EQ(set_.NextDeadline(), kStart + absl::Seconds(1));
}

TEST_F(TrainerSetTest, OldestDirsAreDeletedBeyondTheLimit) {
  Step(OldDirFound{Id(7)});
  Step(OldDirFound{Id(8)});
  Step(OldDirFound{Id(9)});
  Plan({{Id(0), {}}});
  Step(TrainerEnded{Id(0)});
  EXPECT_THAT(Plan({}), ElementsAre("forget 0", "delete 7", "delete 8"));
}

TEST_F(TrainerSetTest, TrainerListedAgainIsNoLongerOld) {
  Step(OldDirFound{Id(7)});
  EXPECT_THAT(Plan({{Id(7), {}}}), ElementsAre("start 7"));
  Step(TrainerEnded{Id(7)});
  Step(OldDirFound{Id(8)});
  Step(OldDirFound{Id(9)});
  EXPECT_THAT(Plan({}), ElementsAre("forget 7", "delete 8"));
}

TEST_F(TrainerSetTest, EndOfAnUnknownTrainerIsIgnored) {
  EXPECT_THAT(Step(TrainerEnded{Id(3)}), IsEmpty());
}

}  // namespace
}  // namespace paceline
