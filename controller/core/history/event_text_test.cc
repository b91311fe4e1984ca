#include "controller/core/history/event_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ReportedVerdict Slow(VerdictKind kind) {
  ReportedVerdict reported;
  reported.verdict.kind = kind;
  reported.verdict.rank = 4;
  reported.verdict.step = 271;
  reported.verdict.since_step = 150;
  reported.verdict.slowdown = 1.65;
  reported.verdict.slowdown_low = 1.64;
  reported.verdict.slowdown_high = 1.66;
  reported.verdict.cause = StragglerCause::kHostPause;
  reported.verdict.lost_share = 0.34;
  reported.node = NodeName("w4");
  return reported;
}

RemedyDecision HotSwap(DecisionState state) {
  RemedyDecision decision;
  decision.id = 7;
  decision.kind = RemedyKind::kHotSwap;
  decision.state = state;
  decision.rank = 4;
  decision.node = NodeName("w4");
  decision.reason = "it is slow";
  return decision;
}

TEST(EventTextTest, ASlowRankIsAWarningWithItsEvidence) {
  const JobLifeEvent event = EventOf(Slow(VerdictKind::kSuspect));
  EXPECT_EQ(event.kind, JobEventKind::kStraggler);
  EXPECT_TRUE(event.warning);
  EXPECT_EQ(event.what,
            "rank 4 on w4 is slow: 1.65 (1.64-1.66) times its peers since step 150, by host pause; "
            "34 % of the job's time lost");
}

TEST(EventTextTest, OneThatIsWellAgainIsNone) {
  for (const VerdictKind kind : {VerdictKind::kTransient, VerdictKind::kRecovered}) {
    const JobLifeEvent event = EventOf(Slow(kind));
    EXPECT_FALSE(event.warning);
    EXPECT_EQ(event.what, "rank 4 on w4 is slow no longer, since step 271");
  }
}

TEST(EventTextTest, NamesWhoIsSlow) {
  ReportedVerdict reported = Slow(VerdictKind::kNode);
  reported.verdict.rank = -1;
  EXPECT_THAT(EventOf(reported).what, StartsWith("node w4 has several slow ranks: "));
  reported = Slow(VerdictKind::kGroup);
  reported.verdict.rank = -1;
  reported.verdict.peer_group = 1;
  reported.node = NodeName();
  EXPECT_THAT(EventOf(reported).what, StartsWith("peer group 1 as a whole is slow: 1.65 times"));
  reported = Slow(VerdictKind::kSuspect);
  reported.exchange.emplace();
  reported.exchange->first_rank = 8;
  reported.exchange->ranks = 4;
  EXPECT_THAT(EventOf(reported).what, StartsWith("the exchange of ranks 8-11 is slow: "));
}

TEST(EventTextTest, DecisionsTellWhoOrderedThem) {
  RemedyDecision decision = HotSwap(DecisionState::kOrdered);
  decision.by = "ann";
  EXPECT_EQ(EventOf(decision).what, "ordered by ann: hot-swap of rank 4 on w4 (decision 7)");
  decision.automatic = true;
  EXPECT_THAT(EventOf(decision).what, StartsWith("ordered by the automation: "));
  EXPECT_EQ(EventOf(HotSwap(DecisionState::kAdvised)).what,
            "advised: hot-swap of rank 4 on w4 (decision 7): it is slow");
}

TEST(EventTextTest, OnlyDecisionsThatWentWrongAreWarnings) {
  for (const DecisionState state :
       {DecisionState::kAdvised, DecisionState::kOrdered, DecisionState::kChecking,
        DecisionState::kHelped, DecisionState::kDone, DecisionState::kUnchecked,
        DecisionState::kWithdrawn}) {
    EXPECT_FALSE(EventOf(HotSwap(state)).warning) << NameOf(state);
  }
  for (const DecisionState state : {DecisionState::kDidNotHelp, DecisionState::kFailed}) {
    RemedyDecision decision = HotSwap(state);
    decision.outcome = "the spare died";
    EXPECT_TRUE(EventOf(decision).warning) << NameOf(state);
    EXPECT_THAT(EventOf(decision).what, HasSubstr("(decision 7): the spare died"));
  }
}

}  // namespace
}  // namespace paceline
