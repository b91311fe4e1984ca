// A job continues a change of membership wherever its controller was killed.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/job_spec/job_spec.h"
#include "controller/core/recovery/failure_budget.h"
#include "controller/core/testing/member_job.h"
#include "controller/store/record.pb.h"
#include "controller/store/records.h"
#include "controller/store/testing/memory_store.h"
#include "controller/wire/convert_plan.h"
#include "google/protobuf/text_format.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

JobRequest Request(const std::string& recovery = "max_failures: 3") {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'digits' ranks: 4 steps: 1000 strategy { hsgd { ladder { period: 2 size: 2 } ladder { "
      "period: 4 level: SCOPE_ALL } } } recovery { " +
          recovery + " }",
      &spec));
  FillDefaults(&spec);
  return FromProto(JobId("job-1"), spec);
}

// Of two replicas of two ranks.
JobRequest ShardedRequest() {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'own' ranks: 4 shards: 2 steps: 1000 "
      "recovery { max_failures: 3 min_ranks: 2 batch: KEEP_RANK_BATCH }",
      &spec));
  FillDefaults(&spec);
  return FromProto(JobId("job-1"), spec);
}

// The job as the next controller loads it at that moment.
Job Reborn(const Job& job, double at) {
  MemoryStore store;
  EXPECT_TRUE(store.Commit({{{JobKey(job.request.id), EncodeJob(job)}}, {}}).ok());
  auto state = LoadState(store);
  EXPECT_TRUE(state.ok()) << state.status();
  Job again = state->jobs.at(0);
  EXPECT_EQ(EncodeJob(again), EncodeJob(job)) << "what is stored is what there is";
  RestoreRecovery(again, At(at));
  return again;
}

void Die(MemberJob& played, double at) {
  played.job = Reborn(played.job, at);
  SetUnreachableNodes(played.job, {}, At(at));  // The workers have reconnected.
  played.Advance(at);
}

TEST(MembershipRecordsTest, RecoveryGoesOnWhereverTheControllerDied) {
  for (int died = 0; died < 5; ++died) {
    SCOPED_TRACE(died);
    MemberJob played(Request());
    auto maybe_die = [&, stage = 0](double at) mutable {
      if (stage++ == died) Die(played, at);
    };
    maybe_die(4);
    played.End(played.Id(2), 5);  // There is no free slot.
    maybe_die(5);
    EXPECT_EQ(played.job.state, JobState::kRecovering);
    EXPECT_EQ(played.job.generation, Generation(1));
    played.slots.Add("e");
    played.Advance(6);
    EXPECT_EQ(played.job.generation, Generation(2));
    maybe_die(6);
    played.Ready(played.Id(2), 7);
    EXPECT_NE(MembershipOf(played.job, played.job.ranks[0]).store_address, "");
    maybe_die(7);
    played.TrainAll(8, 20);
    maybe_die(8);
    const Job& job = played.job;
    EXPECT_EQ(job.state, JobState::kRunning);
    EXPECT_EQ(job.generation, Generation(2)) << "none was begun for nothing";
    EXPECT_EQ(played.Nodes(), "abed");
    EXPECT_EQ(job.recovery.failures.size(), 1U);
    EXPECT_EQ(job.recovery.history.size(), 1U);
    EXPECT_EQ(job.plan.ladder.front().size, 2);
  }
}

TEST(MembershipRecordsTest, MoveGoesOnWhereverTheControllerDied) {
  for (int died = 0; died < 5; ++died) {
    SCOPED_TRACE(died);
    MemberJob played(Request());
    auto maybe_die = [&, stage = 0](double at) mutable {
      if (stage++ == died) Die(played, at);
    };
    played.slots.Add("e");
    RequestReplacement(played.job, NodeName("c"), "drained");
    maybe_die(4);
    played.Advance(20);
    const TrainerId newcomer = played.job.spares.at(0).report.id;
    maybe_die(20);
    played.Ready(newcomer, 31);
    played.Advance(31);
    EXPECT_EQ(played.job.generation, Generation(2));
    const TrainerId old = played.job.leaving.at(0).report.id;
    maybe_die(31);
    EXPECT_TRUE(MembershipOf(played.job, played.job.leaving.at(0)).planned);
    EXPECT_EQ(StopGrace(played.job, played.job.leaving.at(0)), std::nullopt);
    played.TrainAll(32, 20);
    maybe_die(32);
    EXPECT_TRUE(StopGrace(played.job, played.job.leaving.at(0)).has_value());
    played.End(old, 33, FailureKind::kNone, "");
    maybe_die(33);
    EXPECT_EQ(played.job.state, JobState::kRunning);
    EXPECT_EQ(played.Nodes(), "abed");
    EXPECT_EQ(played.job.generation, Generation(2));
    EXPECT_TRUE(played.job.leaving.empty() && played.job.spares.empty());
    EXPECT_TRUE(played.job.recovery.vacate.empty());
  }
}

TEST(MembershipRecordsTest, ShrunkJobGrowsUnderTheNextController) {
  MemberJob played(Request("max_failures: 3 min_ranks: 2"));
  played.End(played.Id(1), 5);
  ASSERT_EQ(played.Nodes(), "ac");
  Die(played, 5);
  EXPECT_EQ(MembershipOf(played.job, played.job.ranks[1]).batch, (RankBatch{32, 2}));
  EXPECT_EQ(FilledSeats(played.job), (std::vector<bool>{true, false, true, false}));
  played.TrainAll(6);
  played.slots.Add("e");
  played.Advance(30);
  ASSERT_EQ(played.job.spares.size(), 2U);
  played.Ready(played.job.spares[1].report.id, 31);
  EXPECT_EQ(played.Nodes().size(), 4U);
}

TEST(MembershipRecordsTest, ShardedRanksKnowWhoseStateTheyHave) {
  MemberJob played(ShardedRequest());
  played.End(played.Id(1), 5);
  ASSERT_EQ(played.Nodes(), "cd") << "the first replica is given up";
  Die(played, 5);
  ASSERT_EQ(played.job.spares.size(), 1U);
  EXPECT_EQ(StateSeat(played.job.spares[0]), 0);
  EXPECT_EQ(StateSeat(played.job.ranks[0]), 2);
  EXPECT_EQ(MembershipOf(played.job, played.job.ranks[0]).shards, 2);
}

// Rank 1 was lost, its successor is on x, and a trainer has been started to bring it back to a.
TEST(MembershipRecordsTest, AReplicaIsMendedUnderTheNextController) {
  MemberJob played(
      ShardedRequest(),
      {{NodeName("a"), 0}, {NodeName("a"), 1}, {NodeName("b"), 0}, {NodeName("b"), 1}});
  played.slots.Add("x");
  played.End(played.Id(1), 10);
  ASSERT_EQ(played.Nodes(), "axbb") << played.job.reason;
  played.TrainAll(11, 20);
  played.slots.Add("a", 5);
  played.Advance(71);
  ASSERT_EQ(played.job.spares.size(), 1U);
  const TrainerId newcomer = played.job.spares[0].report.id;
  Die(played, 72);
  ASSERT_EQ(played.job.spares.size(), 1U) << "it is not surplus";
  played.Ready(newcomer, 73);
  played.Advance(72 + 10);
  EXPECT_EQ(played.Nodes(), "aabb") << played.job.reason;
  EXPECT_EQ(played.Id(1), newcomer);
}

// Until there are slots or copies for the next generation, the members go on waiting.
TEST(MembershipRecordsTest, WhatEndedAGenerationIsCountedOnceByAllControllers) {
  MemberJob played(Request());
  played.Wait(played.Id(0), 5);
  CountTrouble(played.job, At(5.2));
  played.job.recovery.troubled = played.job.generation;
  Die(played, 6);
  ASSERT_EQ(played.job.generation, Generation(1));
  played.Advance(7);
  EXPECT_EQ(played.job.generation, Generation(2));
  EXPECT_EQ(played.job.recovery.failures.size(), 1U);
}

TEST(MembershipRecordsTest, ThatCopiesAreLateIsNoNewsToTheNextController) {
  MemberJob played(Request("max_failures: 3 copy_every_steps: 10"));
  played.TrainAll(5, 40);
  ASSERT_EQ(played.job.recovery.copies.trouble, CopyTrouble::kLate);
  v1::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(EncodeJob(played.job)));
  EXPECT_NE(record.job().copies().trouble(), "") << "people can see it";
  Die(played, 6);
  EXPECT_EQ(played.job.recovery.copies.trouble, CopyTrouble::kLate);
  // Nor does it judge by the steps that are stored.
  played.job.recovery.copies.trouble = CopyTrouble::kNone;
  played.Advance(7);
  EXPECT_EQ(played.job.recovery.copies.trouble, CopyTrouble::kNone);
  played.TrainAll(8, 41);
  EXPECT_EQ(played.job.recovery.copies.trouble, CopyTrouble::kLate);
}

TEST(MembershipRecordsTest, BudgetAndVerdictsSurvive) {
  MemberJob played(Request("max_failures: 1"));
  played.slots.Add("e");
  played.End(played.Id(2), 5);
  played.TrainAll(6, 20);
  Die(played, 7);
  played.End(played.Id(1), 8);
  EXPECT_EQ(played.job.state, JobState::kStopping);

  MemberJob hung(Request());
  hung.job.ranks[1].hangs = "hangs";
  hung.job.ranks[2].lost = "gone";
  hung.job.ranks[2].counted = true;
  const Job again = Reborn(hung.job, 7);
  EXPECT_EQ(again.ranks[1].stacks_deadline, At(9).steady);
  EXPECT_EQ(again.ranks[2].lost, "gone");
  EXPECT_TRUE(again.ranks[2].counted);
}

TEST(MembershipRecordsTest, UnreachableIsNoEvidenceUntilWorkersHadTimeToConnect) {
  MemberJob played(Request());
  played.slots.Add("e");
  played.Wait(played.Id(0), 5);
  played.job = Reborn(played.job, 6);
  SetUnreachableNodes(played.job, {NodeName("a"), NodeName("b"), NodeName("c"), NodeName("d")},
                      At(6));
  played.Advance(6);
  played.Advance(15);
  EXPECT_EQ(played.job.generation, Generation(1));
  SetUnreachableNodes(played.job, {NodeName("c")}, At(15));
  played.Advance(15);
  played.Advance(24);
  EXPECT_EQ(played.job.generation, Generation(1)) << "c has 10 s more than the others";
  played.Advance(25);
  EXPECT_EQ(played.job.generation, Generation(2));
  EXPECT_EQ(played.Nodes(), "abed");
}

TEST(MembershipRecordsTest, DomainsOfSlotsSurvive) {
  MemberJob played(Request());
  played.job.ranks[1].slot.island = "x";
  played.job.homes[2].island = "y";
  const Job again = Reborn(played.job, 5);
  EXPECT_EQ(again.ranks[1].slot.island, "x");
  EXPECT_EQ(again.homes[2].island, "y");
}

TEST(MembershipRecordsTest, RecordOfAVersionWithoutMembershipsIsUnderstood) {
  MemberJob played(Request("max_failures: 0"));
  v1::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(EncodeJob(played.job)));
  for (int r = 0; r < 4; ++r) {
    record.add_store_addresses("x:1");
    record.add_racks("r1");
    record.mutable_job()->mutable_ranks(r)->clear_started_generation();
    record.mutable_job()->mutable_ranks(r)->clear_started_rank();
  }
  record.clear_members();
  record.clear_homes();
  record.clear_recovery();
  MemoryStore store;
  ASSERT_TRUE(store.Commit({{{"job/job-1", record.SerializeAsString()}}, {}}).ok());
  const auto state = LoadState(store);
  ASSERT_TRUE(state.ok());
  const Job& job = state->jobs.at(0);
  EXPECT_EQ(job.ranks[2].report.id, played.Id(2));
  EXPECT_EQ(job.ranks[2].seat, 2);
  EXPECT_EQ(job.homes.size(), 4U);
  EXPECT_EQ(job.homes[2].rack, "r1");
  EXPECT_EQ(StoreAddress(job), "x:1");
}

}  // namespace
}  // namespace paceline
