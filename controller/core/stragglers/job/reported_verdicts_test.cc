#include "controller/core/stragglers/job/reported_verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;

// A verdict about a rank on node 2, or about that node.
ReportedVerdict Reported(VerdictKind kind, int rank) {
  ReportedVerdict reported;
  reported.verdict.kind = kind;
  reported.verdict.rank = rank;
  reported.verdict.node = 2;
  reported.node = NodeName("c");
  return reported;
}

ReportedVerdict OfExchange(VerdictKind kind, int level, int first_rank) {
  ReportedVerdict reported;
  reported.verdict.kind = kind;
  reported.verdict.cause = StragglerCause::kCommunication;
  reported.exchange = ExchangeGroup{level, first_rank, 4, first_rank, 0.5};
  return reported;
}

TEST(ReportedVerdictsTest, CountsAlsoThoseThatAreNotKept) {
  ReportedVerdicts verdicts;
  for (size_t i = 0; i < kVerdictsKept + 5; ++i) verdicts.Tell(Reported(VerdictKind::kSuspect, 5));
  EXPECT_EQ(verdicts.recent().size(), kVerdictsKept);
  EXPECT_EQ(verdicts.count(), static_cast<int64_t>(kVerdictsKept) + 5);
}

TEST(ReportedVerdictsTest, RanksAndNodesAreSlowUntilTheyAreWellAgain) {
  ReportedVerdicts verdicts;
  verdicts.Tell(Reported(VerdictKind::kSuspect, 5));
  verdicts.Tell(Reported(VerdictKind::kSuspect, 4));
  verdicts.Tell(Reported(VerdictKind::kPersistent, 5));
  verdicts.Tell(Reported(VerdictKind::kPersistent, 6));
  verdicts.Tell(Reported(VerdictKind::kNode, -1));
  EXPECT_THAT(verdicts.slow(), ElementsAre(Key(-3), Key(4), Key(5), Key(6)));
  EXPECT_EQ(verdicts.slow().at(5).verdict.kind, VerdictKind::kPersistent);
  verdicts.Tell(Reported(VerdictKind::kTransient, 4));
  EXPECT_THAT(verdicts.slow(), ElementsAre(Key(-3), Key(5), Key(6)));
  verdicts.Tell(Reported(VerdictKind::kRecovered, 5));
  EXPECT_THAT(verdicts.slow(), ElementsAre(Key(6))) << "one is no node";
  verdicts.Tell(Reported(VerdictKind::kRecovered, 6));
  EXPECT_THAT(verdicts.slow(), IsEmpty());
  EXPECT_EQ(verdicts.recent().size(), 8U);
}

TEST(ReportedVerdictsTest, GroupOfPeersIsNewsOnly) {
  ReportedVerdicts verdicts;
  verdicts.Tell(Reported(VerdictKind::kGroup, -1));
  EXPECT_THAT(verdicts.slow(), IsEmpty());
  EXPECT_EQ(verdicts.recent().size(), 1U);
}

TEST(ReportedVerdictsTest, ExchangesAreNoRanks) {
  ReportedVerdicts verdicts;
  verdicts.Tell(Reported(VerdictKind::kSuspect, 8));
  verdicts.Tell(OfExchange(VerdictKind::kSuspect, 2, 8));
  verdicts.Tell(OfExchange(VerdictKind::kPersistent, 1, 8));
  verdicts.Tell(OfExchange(VerdictKind::kPersistent, 2, 8));
  EXPECT_THAT(verdicts.slow_exchanges(), ElementsAre(Key(Pair(1, 8)), Key(Pair(2, 8))));
  EXPECT_EQ(verdicts.slow_exchanges().at({2, 8}).verdict.kind, VerdictKind::kPersistent);
  verdicts.Tell(OfExchange(VerdictKind::kRecovered, 1, 8));
  EXPECT_THAT(verdicts.slow_exchanges(), ElementsAre(Key(Pair(2, 8))));
  EXPECT_THAT(verdicts.slow(), ElementsAre(Key(8)));
}

TEST(ReportedVerdictsTest, RestartKeepsTheNews) {
  ReportedVerdicts verdicts;
  verdicts.Tell(Reported(VerdictKind::kSuspect, 8));
  verdicts.Tell(OfExchange(VerdictKind::kSuspect, 2, 8));
  verdicts.Restart();
  EXPECT_THAT(verdicts.slow(), IsEmpty());
  EXPECT_THAT(verdicts.slow_exchanges(), IsEmpty());
  EXPECT_EQ(verdicts.recent().size(), 2U);
}

TEST(ReportedVerdictsTest, OnlyTheNewestAreKept) {
  ReportedVerdicts verdicts;
  for (int rank = 0; rank <= static_cast<int>(kVerdictsKept); ++rank) {
    verdicts.Tell(Reported(VerdictKind::kSuspect, rank));
  }
  EXPECT_EQ(verdicts.recent().size(), kVerdictsKept);
  EXPECT_EQ(verdicts.recent().front().verdict.rank, 1);
  EXPECT_EQ(verdicts.count(VerdictKind::kSuspect), static_cast<int64_t>(kVerdictsKept) + 1)
      << "the others are still counted";
  EXPECT_EQ(verdicts.count(VerdictKind::kNode), 0);
}

}  // namespace
}  // namespace paceline
