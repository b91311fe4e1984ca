#include "controller/core/recovery/hang.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "controller/core/recovery/membership.h"
#include "controller/core/testing/member_job.h"
#include "controller/core/testing/sharded_job.h"

namespace paceline {
namespace {

constexpr int kIdle = 0;
constexpr int kForward = 2;
constexpr int kCommunication = 4;
constexpr int kAveraging = 6;
constexpr int kRoundWait = 7;
constexpr int kEvaluating = 8;

// Four ranks that were seen at steps 10 to 12, last at 5 s and in these phases.
MemberJob StuckJob(const std::vector<int>& phases) {
  MemberJob played;
  for (int step = 10; step <= 12; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      TrainerReport report = played.Last(played.Id(rank));
      report.progress.step = step;
      report.progress.phase = phases[static_cast<size_t>(rank)];
      played.Tell(report, step - 7);
    }
  }
  return played;
}

// All nodes report that nothing has changed.
void Hear(Job& job, double at) {
  for (RankState& rank : job.ranks) rank.heard = At(at).steady;
}

TEST(HangTest, RankThatOthersWaitForIsTheCulprit) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kForward, kAveraging});
  Hear(played.job, 24.9);
  EXPECT_EQ(FindHung(played.job, At(24.9).steady), std::nullopt);
  Hear(played.job, 25);
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(2));
  EXPECT_EQ(verdict->why,
            "hangs in forward of step 12, without a step for 20.0 s, while rank 0 waits for it");
}

TEST(HangTest, SlowRankThatNobodyWaitsForHangsNot) {
  MemberJob played = StuckJob({kForward, kForward, kForward, kForward});
  Hear(played.job, 1000);
  EXPECT_EQ(FindHung(played.job, At(1000).steady), std::nullopt);
}

// In a job with Slipstream nobody waits for a rank.
TEST(HangTest, RankWithoutStepsHangsWhereTheOthersGoOnWithoutIt) {
  MemberJob played = StuckJob({kForward, kForward, kForward, kForward});
  played.job.plan.slipstream = SlipstreamChoice();
  Progress& progress = played.job.ranks[0].report.progress;
  progress.in_phase = absl::Seconds(20);
  Hear(played.job, 25);
  EXPECT_EQ(FindHung(played.job, At(25).steady), std::nullopt) << "none of them goes on";
  played.Train(played.Id(3), 24, 100);
  Hear(played.job, 25);
  progress.in_phase = absl::Seconds(19);
  EXPECT_EQ(FindHung(played.job, At(25).steady), std::nullopt) << "all have stood still meanwhile";
  progress.in_phase = absl::Seconds(20);
  progress.phase = kIdle;
  EXPECT_EQ(FindHung(played.job, At(25).steady), std::nullopt) << "it evaluates";
  progress.phase = kForward;
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(0));
  EXPECT_EQ(verdict->why,
            "hangs in forward of step 12, without a step for 20.0 s, while rank 3 makes steps");
  played.job.plan.slipstream.reset();
  EXPECT_EQ(FindHung(played.job, At(25).steady), std::nullopt);
}

TEST(HangTest, WhoWaitsForARoundIsNotTakenForTheRankThatHangs) {
  MemberJob played = StuckJob({kRoundWait, kForward, kRoundWait, kRoundWait});
  played.job.plan.slipstream = SlipstreamChoice();
  played.Train(played.Id(3), 7, 100);  // It stops later than the others.
  Hear(played.job, 25);
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(1));
}

// Rank 3 waits for the others' evaluation, which in all takes longer than hang_timeout_s.
TEST(HangTest, RankThatEvaluatesBatchAfterBatchHangsNot) {
  MemberJob played = StuckJob({kEvaluating, kEvaluating, kEvaluating, kEvaluating});
  for (int at = 6; at <= 60; ++at) {
    for (int rank = 0; rank < 4; ++rank) {
      TrainerReport report = played.Last(played.Id(rank));
      report.progress.evaluation_batches = 100;
      report.progress.evaluated_batches = rank == 3 || (rank == 0 && at > 36) ? 100 : at;
      if (rank == 1) report.progress.evaluated_batches = std::min(at, 40);
      played.Tell(report, at);
    }
    EXPECT_EQ(FindHung(played.job, At(std::min(at, 59)).steady), std::nullopt) << at;
    EXPECT_EQ(DescribeStall(played.job, At(at).steady).find("rank 2"), std::string::npos);
  }
  const auto verdict = FindHung(played.job, At(60).steady);
  ASSERT_TRUE(verdict.has_value()) << "rank 1 has evaluated none for 20 s";
  EXPECT_EQ(verdict->rank, Rank(1));
  EXPECT_EQ(verdict->why,
            "hangs in evaluation of step 12, without a step for 20.0 s, while rank 0 waits for it");
}

TEST(HangTest, StoppedProcessIsNoVictim) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kCommunication, kCommunication});
  TrainerReport report = played.Last(played.Id(1));
  report.suspended = true;
  played.Tell(report, 6);
  Hear(played.job, 25);
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->all_wait);
  EXPECT_EQ(verdict->rank, Rank(1));
}

TEST(HangTest, WhenAllWaitNobodyIsTheCulprit) {
  MemberJob played = StuckJob({kCommunication, kRoundWait, kCommunication, kAveraging});
  Hear(played.job, 25);
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_TRUE(verdict->all_wait);
}

TEST(HangTest, FirstStepsMayTakeLong) {
  MemberJob played;
  for (int rank = 0; rank < 4; ++rank) {
    TrainerReport report = played.Last(played.Id(rank));
    report.progress.phase = rank == 2 ? kForward : kCommunication;
    played.Tell(report, 2);
  }
  Hear(played.job, 50);
  EXPECT_EQ(FindHung(played.job, At(50).steady), std::nullopt);
  Hear(played.job, 102);
  EXPECT_TRUE(FindHung(played.job, At(102).steady).has_value());
}

TEST(HangTest, UnreachableNodeProvesNothing) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kForward, kCommunication});
  SetUnreachableNodes(played.job, {NodeName("c")}, At(10));
  Hear(played.job, 30);
  EXPECT_EQ(FindHung(played.job, At(30).steady), std::nullopt);
}

TEST(HangTest, TimeAfterTheLatestReportProvesNothing) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kForward, kCommunication});
  Hear(played.job, 25);
  played.job.ranks[2].heard = At(24.9).steady;
  EXPECT_EQ(FindHung(played.job, At(30).steady), std::nullopt);
  Hear(played.job, 25);
  EXPECT_TRUE(FindHung(played.job, At(30).steady).has_value());
}

TEST(HangTest, CulpritIsReplacedWhenItsStacksAreSaved) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kForward, kCommunication});
  Job& job = played.job;
  played.slots.Add("e");
  EXPECT_EQ(NextDeadline(job), At(15).steady) << "the warning";
  Hear(played.job, 15);
  EXPECT_EQ(played.Advance(15), JobChange::kProgress);
  EXPECT_EQ(job.reason, "rank 2 on c is slow: in forward of step 12, without a step for 10.0 s");
  EXPECT_EQ(NextDeadline(job), At(25).steady);
  Hear(played.job, 25);
  EXPECT_EQ(played.Advance(25), JobChange::kState);
  EXPECT_EQ(job.generation, Generation(1));
  EXPECT_FALSE(job.ranks[2].hangs.empty()) << "its stacks are wanted";
  EXPECT_EQ(StopGrace(job, job.ranks[2]), std::nullopt);
  const TrainerId culprit = played.Id(2);
  TrainerReport report = played.Last(culprit);
  report.stacks_file = "/var/stacks";
  played.Tell(report, 25.5);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(played.Nodes(), "abed");
  ASSERT_EQ(job.leaving.size(), 1U);
  EXPECT_EQ(job.leaving[0].report.id, culprit);
  EXPECT_EQ(StopGrace(job, job.leaving[0]), absl::ZeroDuration());
  EXPECT_EQ(job.recovery.history.back().reason,
            "rank 2 on c: hangs in forward of step 12, without a step for 20.0 s, while rank 0 "
            "waits for it; its stacks are in /var/stacks; a new trainer on e takes seat 2");
}

TEST(HangTest, CulpritIsReplacedAlsoWithoutStacks) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kForward, kCommunication});
  played.slots.Add("e");
  Hear(played.job, 25);
  played.Advance(25);
  Hear(played.job, 26.9);
  played.Advance(26.9);
  EXPECT_EQ(played.job.generation, Generation(1));
  Hear(played.job, 27);
  played.Advance(27);
  EXPECT_EQ(played.job.generation, Generation(2));
}

TEST(HangTest, StoppedProcessIsReplacedAtOnceForItCannotTellItsStacks) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kForward, kCommunication});
  played.slots.Add("e");
  TrainerReport report = played.Last(played.Id(2));
  report.suspended = true;
  played.Tell(report, 6);
  Hear(played.job, 25);
  played.Advance(25);
  Hear(played.job, 25);
  played.Advance(25);
  EXPECT_EQ(played.job.generation, Generation(2));
}

TEST(HangTest, ReasonOfAStallGoesWhenTheRankGoesOn) {
  MemberJob played = StuckJob({kForward, kForward, kForward, kForward});
  Hear(played.job, 16);
  played.Advance(16);
  EXPECT_NE(played.job.reason, "all ranks train");
  for (int rank = 0; rank < 4; ++rank) played.Train(played.Id(rank), 17, 13);
  EXPECT_EQ(played.job.reason, "all ranks train");
}

TEST(HangTest, AJobThatDoesNotStartTellsWhichRankItWaitsFor) {
  MemberJob played;
  played.job = NewJob(MemberRequest(), 1, At(0));
  PlaceJob(played.job,
           {{NodeName("a"), 0}, {NodeName("b"), 0}, {NodeName("c"), 0}, {NodeName("d"), 0}}, At(0));
  for (const int rank : {0, 2, 3}) played.Ready(played.Id(rank), 1);
  TrainerReport report = played.Last(played.Id(1));
  report.suspended = true;
  played.Tell(report, 2);
  played.Advance(29);
  EXPECT_EQ(played.job.reason, "trainers start");
  EXPECT_EQ(NextDeadline(played.job), At(39).steady);
  EXPECT_EQ(played.Advance(47), JobChange::kProgress);
  EXPECT_EQ(played.job.reason,
            "trainers start; not ready after 40 s: rank 1 on b (its process is stopped)");
  EXPECT_EQ(played.Advance(48), JobChange::kNone);
  played.Ready(played.Id(1), 50);
  played.Advance(50);
  EXPECT_EQ(played.job.reason,
            "trainers start; no rendezvous after 50 s: rank 0 on a, rank 1 on b (its process is "
            "stopped), rank 2 on c and 1 more");
  played.TrainAll(51);
  EXPECT_EQ(played.job.reason, "all ranks train");
}

// Ranks of a model of 2 shards whose replicas have stood still since 5 s, in these phases and after
// so many collectives of step 12.
MemberJob StuckReplicas(const std::vector<int>& phases, const std::vector<int>& collectives) {
  const int ranks = static_cast<int>(phases.size());
  MemberJob played(ShardedRequest(ranks / 2, 2));
  for (int step = 10; step <= 12; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      TrainerReport report = played.Last(played.Id(rank));
      report.progress.step = step;
      report.progress.phase = phases[static_cast<size_t>(rank)];
      report.progress.collectives = 100 * step + collectives[static_cast<size_t>(rank)];
      played.Tell(report, step - 7);
    }
  }
  Hear(played.job, 25);
  return played;
}

TEST(HangTest, OfAReplicaTheRankWithTheFewestCollectivesIsTheCulprit) {
  // Rank 1 hangs; rank 0 waits for it within its replica, ranks 2 and 3 across the replicas.
  const std::vector<int> phases = {kForward, kForward, kForward, kForward};
  const MemberJob played = StuckReplicas(phases, {11, 10, 21, 20});
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(1));
  EXPECT_EQ(verdict->why,
            "hangs in forward of step 12, without a step for 20.0 s, while rank 0 of its replica "
            "waits for it in a later collective");
  EXPECT_EQ(FindHung(StuckReplicas(phases, {10, 10, 20, 20}).job, At(25).steady), std::nullopt)
      << "none is behind in its replica";
}

// One that is between its gradients and its update shows the phase of an exchange.
TEST(HangTest, ARankBehindInItsReplicaIsTheCulpritWhateverItsPhase) {
  const std::vector<int> phases = {kCommunication, kCommunication, kCommunication, kCommunication};
  const auto verdict = FindHung(StuckReplicas(phases, {20, 21, 21, 21}).job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->all_wait);
  EXPECT_EQ(verdict->rank, Rank(0));
  const auto all = FindHung(StuckReplicas(phases, {21, 21, 21, 21}).job, At(25).steady);
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(all->all_wait);
}

// Each rank enters the same collectives, of its replica and of its lane in turn, and waits in the
// first one that the one that hangs has not entered.
TEST(HangTest, TheRankThatHangsIsFoundWhereverItStops) {
  constexpr int kRanks = 4;
  for (int culprit = 0; culprit < kRanks; ++culprit) {
    for (int stop = 0; stop < 12; ++stop) {
      std::vector<int> entered(kRanks, 0);
      const auto others_of = [](int rank, int number) {  // In collective `number`.
        return number % 3 == 2 ? std::vector<int>{rank, (rank + 2) % kRanks}  // Its lane.
                               : std::vector<int>{rank, rank ^ 1};            // Its replica.
      };
      for (bool moves = true; moves;) {
        moves = false;
        for (int rank = 0; rank < kRanks; ++rank) {
          int& own = entered[static_cast<size_t>(rank)];
          const std::vector<int> needed = others_of(rank, own - 1);
          const bool is_through =
              own == 0 || std::all_of(needed.begin(), needed.end(), [&](int other) {
                return entered[static_cast<size_t>(other)] >= own;
              });
          if (!is_through || own == 100 || (rank == culprit && own == stop)) continue;
          ++own;
          moves = true;
        }
      }
      const MemberJob played = StuckReplicas({kForward, kForward, kForward, kForward}, entered);
      const auto verdict = FindHung(played.job, At(25).steady);
      ASSERT_TRUE(verdict.has_value()) << culprit << " at " << stop;
      EXPECT_EQ(verdict->rank, Rank(culprit)) << "at " << stop;
    }
  }
}

// Whoever is not counted may be the one that the others wait for.
TEST(HangTest, CountersDecideOnlyIfAllRanksHaveThem) {
  const std::vector<int> phases = {kForward, kForward, kForward, kForward};
  for (int unknown = 1; unknown < 1 << 4; ++unknown) {
    MemberJob played = StuckReplicas(phases, {11, 10, 21, 20});
    for (int rank = 0; rank < 4; ++rank) {
      if (((unknown >> rank) & 1) != 0) {
        played.job.ranks[static_cast<size_t>(rank)].report.progress.collectives = 0;
      }
    }
    EXPECT_EQ(FindHung(played.job, At(25).steady), std::nullopt) << unknown;
    // Phases decide, as without shards.
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != 2) {
        played.job.ranks[static_cast<size_t>(rank)].report.progress.phase = kCommunication;
      }
    }
    const auto verdict = FindHung(played.job, At(25).steady);
    ASSERT_TRUE(verdict.has_value()) << unknown;
    EXPECT_EQ(verdict->rank, Rank(2)) << unknown;
    EXPECT_EQ(verdict->why,
              "hangs in forward of step 12, without a step for 20.0 s, while rank 0 waits for it");
  }
}

TEST(HangTest, ARankThatDoesNotTrainYetNeedsNoCounter) {
  MemberJob played = StuckReplicas({kForward, kForward, kForward, kForward}, {11, 10, 21, 20});
  RankState& other = played.job.ranks[3];
  other.report.progress.collectives = 0;
  other.report.state = TrainerState::kReady;
  other.report.membership.generation = Generation(0);
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(1));
}

TEST(HangTest, CollectivesAreProgressOfARank) {
  MemberJob played = StuckReplicas({kForward, kForward, kForward, kForward}, {11, 9, 21, 21});
  TrainerReport report = played.Last(played.Id(1));
  ++report.progress.collectives;
  played.Tell(report, 24);
  Hear(played.job, 30);
  EXPECT_EQ(FindHung(played.job, At(30).steady), std::nullopt) << "they wait for a slow one";
  Hear(played.job, 44);
  const auto verdict = FindHung(played.job, At(44).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(1));
}

TEST(HangTest, ReplicaOfAnUnreachableNodeProvesNothing) {
  MemberJob played = StuckReplicas({kForward, kForward, kForward, kForward}, {10, 11, 20, 21});
  SetUnreachableNodes(played.job, {NodeName("a")}, At(10));
  EXPECT_EQ(FindHung(played.job, At(25).steady), std::nullopt);
}

// A job of the user's own programs, whose ranks have been quiet for so many seconds.
MemberJob QuietJob(const std::vector<double>& quiet) {
  JobRequest request = MemberRequest();
  request.command = CommandPolicy();
  request.timeouts.stall_warning = absl::Seconds(100);
  MemberJob played(request);
  for (size_t rank = 0; rank < quiet.size(); ++rank) {
    TrainerReport report = played.Last(played.Id(static_cast<int>(rank)));
    report.progress.step = 0;
    report.progress.phase = kIdle;
    report.progress.in_phase = absl::Seconds(quiet[rank]);
    played.Tell(report, 1);
  }
  return played;
}

TEST(HangTest, AProgramWithoutStepsIsQuietAndNeverSlow) {
  EXPECT_EQ(DescribeStall(QuietJob({0, 99, 0, 0}).job, At(10000).steady), "");
  EXPECT_EQ(DescribeStall(QuietJob({0, 0, 330, 0}).job, At(10000).steady),
            "rank 2 on c has been quiet for 5 min: no output, almost no processor time");
  EXPECT_EQ(DescribeStall(QuietJob({100, 7500, 7200, 0}).job, At(10000).steady),
            "rank 1 on b has been quiet for 2 h 5 min: no output, almost no processor time; so "
            "have 2 more");
  EXPECT_EQ(FindHung(QuietJob({9000, 9000, 9000, 0}).job, At(10000).steady), std::nullopt);
}

TEST(HangTest, ARankOfASessionThatOthersWaitForIsTheCulprit) {
  MemberJob played = StuckJob({kCommunication, kCommunication, kForward, kAveraging});
  played.job.request.command = CommandPolicy();
  Hear(played.job, 25);
  EXPECT_EQ(FindHung(played.job, At(25).steady), std::nullopt) << "who waits for whom is unknown";
  played.job.request.command->is_session = true;
  const auto verdict = FindHung(played.job, At(25).steady);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank, Rank(2));
}

TEST(HangTest, AQuietProgramIsLookedAtWhenItsNodeTellsMore) {
  MemberJob played = QuietJob({0, 0, 99.5, 0});
  TrainerReport report = played.Last(played.Id(2));
  report.progress.in_phase = absl::Seconds(99.9);
  EXPECT_EQ(played.Tell(report, 2), JobChange::kNone);
  report.progress.in_phase = absl::Seconds(100.4);
  EXPECT_EQ(played.Tell(report, 3), JobChange::kProgress);
  played.Advance(3);
  EXPECT_EQ(played.job.reason,
            "rank 2 on c has been quiet for 1 min: no output, almost no processor time");
  report.progress.in_phase = absl::Seconds(101);
  EXPECT_EQ(played.Tell(report, 4), JobChange::kNone);
  report.progress.in_phase = absl::ZeroDuration();
  EXPECT_EQ(played.Tell(report, 5), JobChange::kProgress);
  played.Advance(5);
  EXPECT_EQ(played.job.reason, "all ranks train");
}

}  // namespace
}  // namespace paceline
