#include "controller/core/recovery/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "controller/core/recovery/state_groups.h"
#include "controller/core/testing/sharded_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

JobRequest ElasticRequest(int min_ranks, int ranks, int max_ranks,
                          BatchRule rule = BatchRule::kKeepRank) {
  JobRequest request = MemberRequest(ranks);
  request.recovery.min_ranks = min_ranks;
  request.recovery.max_ranks = max_ranks;
  request.recovery.rule = rule;
  return request;
}

// Those that stand by are ready, all at once.
void ReadyAll(MemberJob& played, double at) {
  for (RankState& spare : played.job.spares) {
    spare.report.state = TrainerState::kReady;
    spare.report.store_address = "x:1";
    spare.report.membership.can_hand_over = true;
    spare.report.membership.can_keep_copies = true;
  }
  played.Advance(at);
}

// Four ranks on a to d, and two extra ones on e and f, that train since 101 s.
MemberJob GrownJob() {
  MemberJob played(ElasticRequest(2, 4, 6));
  played.slots.Add("e");
  played.slots.Add("f");
  for (int at = 5; at <= 95; at += 5) played.TrainAll(at, at);
  ReadyAll(played, 100);
  played.TrainAll(101, 101);
  EXPECT_EQ(played.Nodes(), "abcdef");
  EXPECT_EQ(ChangeUnderWay(played.job), nullptr);
  return played;
}

TEST(ElasticTest, JobStartsWithFewerAndGrowsLikeOneThatHasShrunk) {
  MemberJob played(ElasticRequest(2, 4, 4, BatchRule::kKeepGlobal),
                   {{NodeName("a"), 0}, {NodeName("b"), 0}});
  Job& job = played.job;
  EXPECT_EQ(job.reason, "2 ranks train, 2 fewer than the 4 wanted");
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).batch, (RankBatch{32, 2})) << "128 samples, as by 4";
  EXPECT_EQ(MembershipOf(job, job.ranks[0]).world_size, 2);
  EXPECT_EQ(MissingRanks(job), 2);
  played.slots.Add("c");
  played.Advance(20);
  EXPECT_EQ(job.spares.size(), 1U);
  EXPECT_EQ(MissingRanks(job), 1);
  played.slots.Add("d");
  played.Advance(22);
  EXPECT_EQ(job.spares.size(), 2U);
  ReadyAll(played, 23);
  EXPECT_EQ(played.Nodes(), "abcd") << "three could not share the samples";
  EXPECT_EQ(MembershipOf(job, job.ranks[3]).batch, (RankBatch{32, 1}));
  EXPECT_EQ(job.homes.size(), 4U);
  EXPECT_EQ(job.homes[3].node, NodeName("d"));
  played.TrainAll(24, 30);
  EXPECT_EQ(job.reason, "all ranks train");
  EXPECT_TRUE(IsWhole(job));
}

TEST(ElasticTest, NoTwoTrainersHaveOneIdentity) {
  MemberJob played(ElasticRequest(1, 2, 4));
  played.slots.Add("c");
  played.slots.Add("d");
  for (int at = 5; at <= 60; at += 5) played.TrainAll(at, at);
  ASSERT_EQ(played.job.spares.size(), 2U);
  for (const RankState& spare : played.job.spares) {
    EXPECT_GE(spare.report.id.rank.value(), 4) << "a trainer for a lost rank is named by its seat";
  }
}

TEST(ElasticTest, JobGrowsBeyondWhatItWantsOnlyWhenSlotsWereIdleForLongEnough) {
  MemberJob played(ElasticRequest(2, 4, 6));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  // Both pauses, of 10 s and 4 ranks each, are made up for by 2 ranks in 40 s.
  EXPECT_EQ(GrowthPatience(job, 2), absl::Seconds(40));
  for (int at = 5; at <= 40; at += 5) played.TrainAll(at, at);
  EXPECT_THAT(job.spares, IsEmpty());
  for (int at = 45; at <= 55; at += 5) played.TrainAll(at, at);
  EXPECT_EQ(job.spares.size(), 2U);
  EXPECT_EQ(WantedRanks(job), 6);
  ReadyAll(played, 60);
  EXPECT_EQ(played.Nodes(), "abcdef");
  EXPECT_EQ(MembershipOf(job, job.ranks[5]).world_size, 6);
  EXPECT_EQ(job.state, JobState::kRunning) << "nothing is held up while the ranks connect";
  played.TrainAll(61, 70);
  EXPECT_EQ(job.reason, "6 ranks train, 2 more than the 4 wanted");
  EXPECT_EQ(MissingRanks(job), 0);
}

// Looks for slots as a job would do; none of them is taken.
class IdleSlots {
 public:
  FindSlots Find() {
    return [this](const Job&, SlotUse use, int count, const ReplicaHome*) {
      EXPECT_EQ(use, SlotUse::kIdle);
      const Slot slot = {NodeName("e"), 0};
      return std::vector<Slot>(static_cast<size_t>(std::min(count, free)), slot);
    };
  }
  int free = 0;
};

TEST(ElasticTest, TimeBeginsAnewWhenSlotsWereUsedMeanwhile) {
  MemberJob played(ElasticRequest(2, 4, 6));
  IdleSlots slots;
  Job& job = played.job;
  const auto grows = [&](double at) { return ConsiderGrowth(job, slots.Find(), At(at)); };
  slots.free = 1;
  EXPECT_FALSE(grows(10));
  EXPECT_FALSE(grows(80)) << "one rank makes up for the pauses in 80 s";
  slots.free = 0;
  EXPECT_FALSE(grows(85));
  EXPECT_EQ(job.recovery.idle_since, absl::InfiniteFuture());
  slots.free = 2;
  EXPECT_FALSE(grows(90));
  EXPECT_FALSE(grows(129));
  EXPECT_TRUE(grows(130));
  EXPECT_EQ(WantedRanks(job), 6);
  EXPECT_FALSE(grows(135)) << "it does already";
  EXPECT_EQ(StopGrowth(job, At(136)), JobChange::kProgress);
  EXPECT_EQ(WantedRanks(job), 4);
  EXPECT_FALSE(grows(140));
  EXPECT_FALSE(grows(179)) << "and again";
  EXPECT_TRUE(grows(180));
}

// The rule of ski rental: the job waits until the slots have been idle for as long as they would
// have to be used to make up for a growth. Compared with whoever knows how long they stay idle.
TEST(ElasticTest, WhateverFollowsAGrowthLosesAtMostTwiceWhatTheBestDecisionWould) {
  MemberJob played(ElasticRequest(1, 4, 4096));
  Job& job = played.job;
  MembershipChange change;
  change.planned = true;
  for (const int pause : {5, 20, 200}) {
    change.begun = At(0).wall;
    change.ended = change.begun + absl::Seconds(pause);
    job.recovery.history = {change};
    for (int more = 1; more <= 32; more *= 2) {
      const double patience = absl::ToDoubleSeconds(GrowthPatience(job, more));
      ASSERT_GE(patience, absl::ToDoubleSeconds(kLeastPatience));
      const double cost = 2.0 * pause * 4;  // In seconds of a rank.
      for (double idle = 1; idle < 3000; idle *= 1.3) {
        const double best = std::min(cost, more * idle);
        const double lost = idle < patience ? more * idle : more * patience + cost;
        const double least = more * absl::ToDoubleSeconds(kLeastPatience);
        EXPECT_LE(lost, 2 * best + least + 1e-6) << pause << " " << more << " " << idle;
      }
    }
  }
}

TEST(ElasticTest, LongPausesAndClocksThatJumpAreBounded) {
  MemberJob played(ElasticRequest(1, 4, 8));
  MembershipChange change;
  change.planned = true;
  change.begun = At(1000).wall;
  change.ended = At(10).wall;
  played.job.recovery.history = {change};
  EXPECT_EQ(GrowthPatience(played.job, 4), kLeastPatience);
  change.ended = change.begun + absl::Hours(5);
  played.job.recovery.history = {change};
  EXPECT_EQ(GrowthPatience(played.job, 4), 2 * kLongestPause);
}

TEST(ElasticTest, StepsDownArePossibleNumbersThatEndAtWhatTheJobWants) {
  for (const BatchRule rule : {BatchRule::kKeepGlobal, BatchRule::kKeepRank}) {
    for (int shards = 1; shards <= 2; ++shards) {
      for (int ranks = shards; ranks <= 6; ranks += shards) {
        JobRequest request = ElasticRequest(shards, ranks, 24, rule);
        request.shards = shards;
        request.recovery.batch = {12, 1};
        for (int present = ranks; present <= 24; present += shards) {
          if (PossibleRanksOf(request, present) != present) continue;
          Job job = NewJob(request, 1, At(0));
          job.state = JobState::kRunning;
          job.ranks.resize(static_cast<size_t>(present));
          int from = present;
          for (const int step : StepsDown(job)) {
            EXPECT_LT(step, from);
            EXPECT_GE(step, ranks);
            EXPECT_EQ(PossibleRanksOf(request, from - 1), step) << "no step is left out";
            from = step;
          }
          EXPECT_EQ(from, ranks) << "all that is extra can be given back";
        }
      }
    }
  }
}

TEST(ElasticTest, FewestToStartWithIsANumberThatCanTrain) {
  EXPECT_EQ(LeastToStart(ElasticRequest(3, 8, 8)), 3);
  EXPECT_EQ(LeastToStart(ElasticRequest(3, 8, 8, BatchRule::kKeepGlobal)), 4) << "256 samples";
  EXPECT_EQ(LeastToStart(ElasticRequest(0, 8, 8)), 1);
  EXPECT_EQ(LeastToStart(ElasticRequest(3, 8, 0)), 8) << "it is not elastic";
  JobRequest sharded = ElasticRequest(2, 8, 8);
  sharded.shards = 2;
  EXPECT_EQ(LeastToStart(sharded), 2);
}

TEST(ElasticTest, ExtraRanksAreGivenBackWhileTheJobTrains) {
  MemberJob played = GrownJob();
  Job& job = played.job;
  const Generation before = job.generation;
  ASSERT_THAT(StepsDown(job), ElementsAre(5, 4));
  EXPECT_EQ(OrderGiveBack(job, 4, "job 9 (other)", At(120)), JobChange::kProgress);
  EXPECT_EQ(OrderGiveBack(job, 4, "job 9 (other)", At(120)), JobChange::kNone);
  EXPECT_EQ(job.recovery.wake, At(120).steady) << "at once";
  played.Advance(120);
  EXPECT_GT(job.generation.value(), before.value());
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(played.Nodes(), "abcd");
  EXPECT_EQ(job.recovery.history.back().reason,
            "gives 2 extra ranks back, of 6: job 9 (other) waits for slots");
  ASSERT_EQ(job.leaving.size(), 2U);
  for (const RankState& leaver : job.leaving) {
    const Membership membership = MembershipOf(job, leaver);
    EXPECT_EQ(membership.rank, Rank(-1));
    EXPECT_TRUE(membership.planned) << "it trains on until all leave together";
    EXPECT_EQ(StopGrace(job, leaver), std::nullopt);
  }
  played.TrainAll(121, 130);
  EXPECT_EQ(ChangeUnderWay(job), nullptr);
  for (const RankState& leaver : job.leaving) EXPECT_TRUE(StopGrace(job, leaver).has_value());
  EXPECT_EQ(job.homes.size(), 4U);
  EXPECT_EQ(job.recovery.give_back_to, 0);
  EXPECT_TRUE(job.recovery.failures.empty());
}

// The last level of a ladder may be given as a size: all ranks of the job file.
TEST(ElasticTest, ExtraRanksShareTheStateOfALadderOfOneLevel) {
  MemberJob played = GrownJob();
  played.job.plan.ladder = {{8, LadderScope::kSize, 4}};
  EXPECT_THAT(GroupsOfSeats(played.job), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(LoneMembers(played.job), IsEmpty());
  played.job.plan.ladder = {{2, LadderScope::kSize, 4}, {8, LadderScope::kAll, 0}};
  EXPECT_THAT(GroupsOfSeats(played.job), ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST(ElasticTest, OrderThatIsTakenBackChangesNothing) {
  MemberJob played = GrownJob();
  OrderGiveBack(played.job, 5, "job 9 (other)", At(102));
  played.Advance(102);
  EXPECT_EQ(played.Nodes(), "abcdef") << "it has only just changed";
  OrderGiveBack(played.job, 0, "", At(103));
  played.Advance(130);
  EXPECT_EQ(played.Nodes(), "abcdef");
}

TEST(ElasticTest, LossCallsGivingBackOffAndNobodyIsForgotten) {
  MemberJob played = GrownJob();
  Job& job = played.job;
  OrderGiveBack(job, 4, "job 9 (other)", At(120));
  played.Advance(120);
  ASSERT_EQ(played.Nodes(), "abcd");
  played.End(played.Id(1), 121);
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(played.Nodes(), "acd");
  EXPECT_GE(static_cast<int>(job.ranks.size()), job.request.recovery.min_ranks);
  ASSERT_EQ(job.leaving.size(), 2U);
  for (const RankState& leaver : job.leaving) EXPECT_TRUE(StopGrace(job, leaver).has_value());
}

TEST(ElasticTest, ExtraRankThatIsLostIsNotReplaced) {
  MemberJob played = GrownJob();
  Job& job = played.job;
  played.slots.Add("g");
  played.End(played.Id(2), 120);
  EXPECT_EQ(played.Nodes(), "abdef");
  EXPECT_THAT(job.reason,
              StartsWith("rank 2 on c: killed by SIGKILL; the job goes on with 5 rank"));
  EXPECT_EQ(played.slots.size(), 1U);
  EXPECT_EQ(MissingRanks(job), 0);
  EXPECT_THAT(StepsDown(job), IsEmpty()) << "not while it recovers";
  played.TrainAll(121, 130);
  EXPECT_THAT(StepsDown(job), ElementsAre(4));
  EXPECT_FALSE(IsWhole(job));
}

// Each change holds the others up, so there is one for all; but not for ever.
TEST(ElasticTest, TrainersOfAGrowthBecomeMembersTogetherUnlessOneFails) {
  MemberJob played(ElasticRequest(2, 4, 6));
  Job& job = played.job;
  played.slots.Add("e");
  played.slots.Add("f");
  for (int at = 5; at <= 60; at += 5) played.TrainAll(at, at);
  ASSERT_EQ(job.spares.size(), 2U);
  played.Ready(job.spares[1].report.id, 65);
  played.Advance(65);
  EXPECT_EQ(played.Nodes(), "abcd") << "the other one is about to come";
  const TrainerId other =
      IsReady(job.spares[0]) ? job.spares[1].report.id : job.spares[0].report.id;
  played.End(other, 70);
  EXPECT_EQ(job.ranks.size(), 5U);
  EXPECT_THAT(job.recovery.history.back().reason,
              StartsWith("grows to 5 ranks, 1 more than the 4 wanted, a trainer on "));
}

// Otherwise the spare would be gone until the trainer that takes its place is ready.
TEST(ElasticTest, SpareIsThereBeforeAndAfterAGrowth) {
  JobRequest request = ElasticRequest(2, 4, 5);
  request.spares = 1;
  MemberJob played(request);
  Job& job = played.job;
  played.slots.Add("e");
  played.Advance(2);
  ASSERT_EQ(job.spares.size(), 1U);
  ReadyAll(played, 3);
  played.slots.Add("f");
  for (int at = 5; at <= 120; at += 5) played.TrainAll(at, at);
  ASSERT_EQ(job.spares.size(), 2U);
  EXPECT_EQ(played.Nodes(), "abcd") << "the spare that is ready is no extra rank";
  ReadyAll(played, 125);
  EXPECT_EQ(job.ranks.size(), 5U);
  EXPECT_EQ(job.spares.size(), 1U);
}

// A drain, or a remedy for a slow node, must not wait for ever since others have extra ranks.
TEST(ElasticTest, RankThatHasToMoveLacksASlotUntilATrainerIsThereForIt) {
  MemberJob played(ElasticRequest(2, 4, 4));
  Job& job = played.job;
  EXPECT_EQ(MissingRanks(job), 0);
  EXPECT_EQ(RequestReplacement(job, NodeName("b"), "it is drained"), JobChange::kState);
  played.Advance(5);
  EXPECT_EQ(MissingRanks(job), 1);
  played.slots.Add("e");
  played.Advance(7);
  ASSERT_EQ(job.spares.size(), 1U);
  EXPECT_EQ(MissingRanks(job), 0);
}

// The controller goes over all jobs whenever one of them wakes it.
TEST(ElasticTest, JobsLookForSlotsAtTheSameTimes) {
  IdleSlots slots;
  for (const double at : {10.5, 11.0, 13.25, 14.75}) {
    MemberJob played(ElasticRequest(2, 4, 6));
    ConsiderGrowth(played.job, slots.Find(), At(at));
    EXPECT_EQ(played.job.recovery.next_growth, At(15).steady) << at;
  }
}

TEST(ElasticTest, RestartedControllerDecidesAnew) {
  MemberJob played = GrownJob();
  Job& job = played.job;
  OrderGiveBack(job, 4, "job 9 (other)", At(102));
  RestoreRecovery(job, At(110));
  EXPECT_EQ(job.recovery.give_back_to, 0);
  EXPECT_EQ(WantedRanks(job), 6) << "what it has stays until somebody waits";
}

TEST(ElasticTest, ShardedJobGrowsAndGivesBackByWholeReplicas) {
  JobRequest request = ShardedRequest(/*replicas=*/2, /*shards=*/2, /*spares=*/0);
  request.recovery.max_ranks = 8;
  MemberJob played(request);
  Job& job = played.job;
  for (const char* node : {"e", "f", "g"}) played.slots.Add(node);
  for (int at = 5; at <= 60; at += 5) played.TrainAll(at, at);
  ASSERT_EQ(job.spares.size(), 2U) << "a third would be of no use";
  ReadyAll(played, 65);
  EXPECT_EQ(played.Nodes(), "abcdef");
  played.TrainAll(66, 70);
  EXPECT_EQ(job.homes.size(), 6U);
  ASSERT_THAT(StepsDown(job), ElementsAre(4));
  OrderGiveBack(job, 4, "job 9 (other)", At(90));
  played.Advance(90);
  EXPECT_EQ(played.Nodes(), "abcd");
  played.TrainAll(91, 95);
  EXPECT_EQ(job.homes.size(), 4U);
}

}  // namespace
}  // namespace paceline
