#include "controller/core/recovery/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "controller/core/recovery/membership.h"
#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Collective Call(int64_t number, const std::string& operation = "all_reduce",
                const std::string& input = "float32 [4]", bool finished = false) {
  return {number, operation, input, finished};
}

// A rank that waits in `number` and has passed the one before.
GroupCollectives In(int64_t number, const std::string& name = "0") {
  return {name,   "default_pg", {0, 1, 2, 3},
          number, true,         {Call(number - 1, "broadcast", "float32 [2]", true), Call(number)}};
}

// A rank that has passed `number` and waits in none.
GroupCollectives Through(int64_t number, const std::string& name = "0") {
  GroupCollectives group = {name, "default_pg", {0, 1, 2, 3}, number, true, {}};
  if (number > 0) group.collectives = {Call(number, "broadcast", "float32 [2]", true)};
  return group;
}

RankReport Reported(int rank, std::vector<GroupCollectives> groups) {
  RankReport reported;
  reported.rank = Rank(rank);
  reported.reported.groups = std::move(groups);
  return reported;
}

RankReport Silent(int rank, const std::string& why) {
  RankReport reported;
  reported.rank = Rank(rank);
  reported.reported.unavailable = why;
  return reported;
}

TEST(CollectivesTest, RankThatHasNotEnteredWhatOthersAreInIsNamed) {
  EXPECT_THAT(FindCollectives({Reported(0, {In(513)}), Reported(1, {In(513)}),
                               Reported(2, {Through(512)}), Reported(3, {In(513)})}),
              ElementsAre("all_reduce #513 of group default_pg (float32 [4]): ranks 0-1, 3 are in "
                          "it, rank 2 has not entered it; its last was broadcast #512"));
}

TEST(CollectivesTest, OfSeveralThatAreLateTheLastOneIsTold) {
  EXPECT_THAT(
      FindCollectives({Reported(0, {In(513)}), Reported(1, {Through(510)}),
                       Reported(2, {Through(512)}), Reported(3, {Through(0)})}),
      ElementsAre("all_reduce #513 of group default_pg (float32 [4]): rank 0 is in it, ranks "
                  "1-3 have not entered it, nor any before it"));
  EXPECT_THAT(FindCollectives({Reported(0, {In(513)}), Reported(1, {Through(510)}),
                               Reported(2, {Through(512)}), Reported(3, {In(513)})}),
              ElementsAre(HasSubstr("ranks 1-2 have not entered it; of rank 1 the last was "
                                    "broadcast #510")));
}

// A GPU's queue runs ahead, so the first unfinished collective counts.
TEST(CollectivesTest, RanksThatAreFarAheadWaitInTheFirstThatHasNotFinished) {
  GroupCollectives ahead = {
      "0", "default_pg", {0, 1},
      430, true,         {Call(400, "broadcast", "float32 [2]", true), Call(401), Call(402)}};
  EXPECT_THAT(
      FindCollectives({Reported(0, {ahead}), Reported(1, {Through(400)})}),
      ElementsAre("all_reduce #401 of group default_pg (float32 [4]): rank 0 is in it, rank "
                  "1 has not entered it; its last was broadcast #400"));
}

TEST(CollectivesTest, DifferentOperationsOfOneNumberAreAMismatch) {
  GroupCollectives other = In(9);
  other.collectives.back() = Call(9, "broadcast", "float32 [4]");
  EXPECT_THAT(
      FindCollectives(
          {Reported(0, {In(9)}), Reported(1, {other}), Reported(2, {In(9)}), Reported(3, {In(9)})}),
      ElementsAre("collective #9 of group default_pg is not the same on all ranks: ranks 0, "
                  "2-3 called all_reduce (float32 [4]), rank 1 called broadcast (float32 "
                  "[4])"));
}

TEST(CollectivesTest, DifferentInputsAreAMismatchWhereTheyHaveToBeEqual) {
  GroupCollectives other = In(9);
  other.collectives.back().input = "float32 [5]";
  EXPECT_THAT(FindCollectives({Reported(0, {In(9)}), Reported(1, {other})}),
              ElementsAre(HasSubstr("is not the same on all ranks: rank 0 called all_reduce "
                                    "(float32 [4]), rank 1 called all_reduce (float32 [5])")));
}

TEST(CollectivesTest, UnevenInputsOfAnAllToAllAreNone) {
  GroupCollectives one = In(9), other = In(9);
  one.collectives = {Call(9, "all_to_all", "float32 [4]")};
  other.collectives = {Call(9, "all_to_all", "float32 [5]")};
  one.ranks = other.ranks = {0, 1};
  EXPECT_THAT(
      FindCollectives({Reported(0, {one}), Reported(1, {other})}),
      ElementsAre("all_to_all #9 of group default_pg (float32 [4]): ranks 0-1 are in it, and "
                  "no rank is missing: it does not come to its end"));
}

// An earlier mismatch that did not block causes what is stuck later.
TEST(CollectivesTest, TheFirstMismatchIsTold) {
  GroupCollectives other = In(9);
  other.collectives.front() = Call(8, "all_gather", "float32 [2]", true);
  EXPECT_THAT(FindCollectives({Reported(0, {In(9)}), Reported(1, {other})}),
              ElementsAre(HasSubstr("collective #8 of group default_pg is not the same")));
}

TEST(CollectivesTest, TheGroupThatExplainsTheOthersComesFirst) {
  // Rank 2 does not come to the default group, as it waits for rank 3 in their pair.
  GroupCollectives pair = In(7, "4");
  pair.description = "undefined";
  pair.ranks = {2, 3};
  GroupCollectives late = Through(6, "4");
  late.description = "undefined";
  late.ranks = {2, 3};
  EXPECT_THAT(
      FindCollectives({Reported(0, {In(513)}), Reported(1, {In(513)}),
                       Reported(2, {Through(512), pair}), Reported(3, {Through(512), late})}),
      ElementsAre(
          "all_reduce #7 of group 4 (float32 [4]): rank 2 is in it, rank 3 has not entered "
          "it; its last was broadcast #6",
          "all_reduce #513 of group default_pg (float32 [4]): ranks 0-1 are in it, ranks 2-3 "
          "have not entered it; of rank 2 the last was broadcast #512, and it is in "
          "all_reduce #7 of group 4"));
}

// Each group is judged by itself, and concerns only its members.
TEST(CollectivesTest, RanksOutsideOfAGroupAreNotMissed) {
  GroupCollectives one = In(3, "1"), other = Through(2, "1");
  one.ranks = other.ranks = {1, 3};
  EXPECT_THAT(FindCollectives({Reported(0, {Through(90)}), Reported(1, {Through(90), one}),
                               Reported(2, {Through(90)}), Reported(3, {Through(90), other})}),
              ElementsAre(HasSubstr("rank 1 is in it, rank 3 has not entered it")));
}

TEST(CollectivesTest, MemberThatHasNotMadeTheGroupYetHasEnteredNothing) {
  EXPECT_THAT(FindCollectives({Reported(0, {In(1)}), Reported(1, {In(1)}), Reported(2, {In(1)}),
                               Reported(3, {})}),
              ElementsAre(HasSubstr("rank 3 has not entered it, nor any before it")));
}

TEST(CollectivesTest, RanksThatToldNothingAreUnknown) {
  EXPECT_THAT(
      FindCollectives({Reported(0, {In(513)}), Reported(1, {In(513)}), Silent(2, "node b is away"),
                       Silent(3, "node b is away")}),
      ElementsAre("all_reduce #513 of group default_pg (float32 [4]): ranks 0-1 are in it, of "
                  "ranks 2-3 it is not known",
                  "the collectives of ranks 2-3 are not known: node b is away"));
  EXPECT_THAT(FindCollectives({Silent(0, "torch 1.9: it has no flight recorder")}),
              ElementsAre("the collectives of rank 0 are not known: torch 1.9: it has no flight "
                          "recorder"));
}

TEST(CollectivesTest, WithoutARankThatWaitsThereIsNothingToTell) {
  EXPECT_THAT(FindCollectives({}), IsEmpty());
  EXPECT_THAT(FindCollectives({Reported(0, {}), Reported(1, {})}), IsEmpty());
  EXPECT_THAT(FindCollectives({Reported(0, {Through(512)}), Reported(1, {Through(513)}),
                               Reported(2, {Through(513)}), Reported(3, {Through(513)})}),
              IsEmpty());
}

// torch may report a failed collective as finished.
TEST(CollectivesTest, RankThatFailedWasInItsNewestCollective) {
  GroupCollectives failed = Through(513);
  failed.collectives = {Call(513, "all_reduce", "float32 [7, 3]", true)};
  failed.ranks = {0, 1};
  GroupCollectives older = Through(4, "1");
  older.newest = false;
  RankReport first = Reported(0, {failed, older});
  first.has_failed = true;
  EXPECT_THAT(FindCollectives({first, Reported(1, {Through(512)})}),
              ElementsAre("all_reduce #513 of group default_pg (float32 [7, 3]): rank 0 is in it, "
                          "rank 1 has not entered it; its last was broadcast #512"));
}

TEST(CollectivesTest, LongListsOfRanksAreCompressed) {
  std::vector<RankReport> ranks;
  for (int rank = 0; rank < 4096; ++rank) {
    GroupCollectives group = rank % 100 == 99 ? Through(1) : In(2);
    group.ranks.clear();
    ranks.push_back(Reported(rank, {group}));
  }
  EXPECT_THAT(
      FindCollectives(ranks),
      ElementsAre(HasSubstr("ranks 0-98, 100-198, 200-298, 300-398, 400-498, 500-598, "
                            "600-698, 700-798, and 3264 more are in it, ranks 99, 199, 299, "
                            "399, 499, 599, 699, 799, and 32 more have not entered it")));
}

// ---- A job.

class CollectivesOfJobTest : public ::testing::Test {
 protected:
  static JobRequest Request() {
    JobRequest request = MemberRequest(2);
    request.recovery = RecoveryPolicy();
    request.spares = 0;
    request.timeouts.stall_warning = absl::Seconds(30);
    request.command = CommandPolicy{/*watched=*/true};
    return request;
  }

  // The job makes no steps that are seen.
  CollectivesOfJobTest() : played_(Request()) { played_.TrainAll(2, 0); }

  // Both ranks have been quiet for so long.
  JobChange Quiet(double seconds, double at) {
    JobChange change = JobChange::kNone;
    for (int rank = 0; rank < 2; ++rank) {
      TrainerReport report = played_.Last(played_.Id(rank));
      report.progress.in_phase = absl::Seconds(seconds);
      change = std::max(change, played_.Tell(report, at));
    }
    return change;
  }

  void Answer(int rank, GroupCollectives group, double at) {
    TrainerReport report = played_.Last(played_.Id(rank));
    group.ranks = {0, 1};
    report.collectives = {job().collectives.wanted, "", {std::move(group)}};
    played_.Tell(report, at);
  }

  Job& job() { return played_.job; }

  MemberJob played_;
};

TEST_F(CollectivesOfJobTest, RanksAreAskedWhenOneStandsStill) {
  EXPECT_NE(Quiet(29, 31), JobChange::kState);
  EXPECT_EQ(job().collectives.wanted, 0);
  EXPECT_EQ(Quiet(30, 32), JobChange::kState) << "for the plans of all its nodes";
  EXPECT_GT(job().collectives.wanted, 0);
  Answer(0, In(5), 33);
  EXPECT_THAT(job().collectives.findings, IsEmpty()) << "the other one may answer yet";
  Answer(1, Through(4), 33);
  const std::string found =
      "all_reduce #5 of group default_pg (float32 [4]): rank 0 is in it, rank 1 has not entered "
      "it; "
      "its last was broadcast #4";
  EXPECT_THAT(job().collectives.findings, ElementsAre(found));
  EXPECT_EQ(job().collectives.reported, At(33).wall);
  EXPECT_THAT(job().reason, HasSubstr("has been quiet for 30 s: no output"));
  EXPECT_THAT(job().reason, HasSubstr("; " + found));
}

TEST_F(CollectivesOfJobTest, RankThatDoesNotAnswerIsNotWaitedForForever) {
  Quiet(30, 32);
  Answer(0, In(5), 33);
  EXPECT_LE(job().recovery.wake, At(39).steady);
  played_.Advance(39);
  EXPECT_THAT(job().collectives.findings,
              ElementsAre(HasSubstr("rank 0 is in it, of rank 1 it is not known"),
                          "the collectives of rank 1 are not known: node b has not answered"));
}

TEST_F(CollectivesOfJobTest, TheyAreAskedAgainAsLongAsItLasts) {
  Quiet(30, 32);
  const int64_t first = job().collectives.wanted;
  Answer(0, In(5), 33);
  Answer(1, Through(4), 33);
  EXPECT_NE(Quiet(59, 61), JobChange::kState);
  EXPECT_EQ(job().collectives.wanted, first);
  EXPECT_EQ(Quiet(90, 92), JobChange::kState);
  EXPECT_GT(job().collectives.wanted, first);
  EXPECT_EQ(job().collectives.findings.size(), 1u) << "until there are newer answers";
}

TEST_F(CollectivesOfJobTest, WhenTheJobGoesOnNothingIsLeftOfIt) {
  Quiet(30, 32);
  Answer(0, In(5), 33);
  Answer(1, Through(4), 33);
  EXPECT_EQ(Quiet(1, 34), JobChange::kState) << "for the plans of all its nodes";
  EXPECT_EQ(job().collectives.wanted, 0);
  EXPECT_THAT(job().collectives.findings, IsEmpty());
  EXPECT_EQ(job().reason, "all ranks train");
}

TEST_F(CollectivesOfJobTest, RanksThatAreNotWatchedAreNotAsked) {
  job().request.command->watched = false;
  EXPECT_NE(Quiet(30, 32), JobChange::kState);
  EXPECT_EQ(job().collectives.wanted, 0);
}

TEST_F(CollectivesOfJobTest, AfterAFailedCollectiveTheReasonNamesIt) {
  TrainerReport report = played_.Last(played_.Id(0));
  GroupCollectives group = Through(5);
  group.collectives = {Call(5, "all_reduce", "float32 [4]", true)};
  group.ranks = {0, 1};
  report.collectives = {0, "", {group}};
  report.state = TrainerState::kExited;
  report.exit = TrainerExit();
  report.exit->failure = FailureKind::kCollective;
  report.exit->message = "RuntimeError: Timed out";
  played_.Tell(report, 10);
  EXPECT_EQ(job().state, JobState::kStopping);
  EXPECT_GT(job().collectives.wanted, 0) << "the plan that ends the other one asks it, too";
  report = played_.Last(played_.Id(1));
  GroupCollectives other = Through(4);
  other.ranks = {0, 1};
  report.collectives = {job().collectives.wanted, "", {other}};
  report.state = TrainerState::kExited;
  report.exit = TrainerExit();
  played_.Tell(report, 10.2);
  EXPECT_EQ(job().state, JobState::kFailed);
  EXPECT_THAT(job().reason, HasSubstr("Timed out; all_reduce #5 of group default_pg (float32 [4]): "
                                      "rank 0 is in it, rank 1 has not entered it"));
}

TEST_F(CollectivesOfJobTest, WhoEndedUnaskedIsUnknown) {
  for (int rank = 0; rank < 2; ++rank) {
    TrainerReport report = played_.Last(played_.Id(rank));
    if (rank == 0) report.collectives = {0, "", {In(5)}};
    report.state = TrainerState::kExited;
    report.exit = TrainerExit();
    report.exit->failure = rank == 0 ? FailureKind::kCollective : FailureKind::kSignal;
    played_.Tell(report, 10);
  }
  EXPECT_THAT(job().collectives.findings,
              ElementsAre(HasSubstr("of rank 1 it is not known"),
                          "the collectives of rank 1 are not known: ended before being asked"));
}

}  // namespace
}  // namespace paceline
