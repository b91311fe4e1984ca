#include "controller/core/history/straggler_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ToldVerdict Slow(VerdictKind kind) {
  ToldVerdict told;
  told.verdict.kind = kind;
  told.verdict.rank = 4;
  told.verdict.step = 271;
  told.verdict.since_step = 150;
  told.verdict.slowdown = 1.65;
  told.verdict.slowdown_low = 1.64;
  told.verdict.slowdown_high = 1.66;
  told.verdict.cause = StragglerCause::kHostPause;
  told.verdict.lost_share = 0.34;
  told.node = NodeName("w4");
  return told;
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

TEST(StragglerEventsTest, ASlowRankIsAWarningWithItsEvidence) {
  const JobLifeEvent event = EventOf(Slow(VerdictKind::kSuspect));
  EXPECT_EQ(event.kind, JobEventKind::kStraggler);
  EXPECT_TRUE(event.warning);
  EXPECT_EQ(event.what,
            "rank 4 on w4 is slow: 1.65 (1.64-1.66) times its peers since step 150, by host pause; "
            "34 % of the job's time lost");
}

TEST(StragglerEventsTest, OneThatIsWellAgainIsNone) {
  for (const VerdictKind kind : {VerdictKind::kTransient, VerdictKind::kRecovered}) {
    const JobLifeEvent event = EventOf(Slow(kind));
    EXPECT_FALSE(event.warning);
    EXPECT_EQ(event.what, "rank 4 on w4 is slow no longer, since step 271");
  }
}

TEST(StragglerEventsTest, NamesWhoIsSlow) {
  ToldVerdict told = Slow(VerdictKind::kNode);
  told.verdict.rank = -1;
  EXPECT_THAT(EventOf(told).what, StartsWith("node w4 has several slow ranks: "));
  told = Slow(VerdictKind::kGroup);
  told.verdict.rank = -1;
  told.verdict.peer_group = 1;
  told.node = NodeName();
  EXPECT_THAT(EventOf(told).what, StartsWith("peer group 1 as a whole is slow: 1.65 times"));
  told = Slow(VerdictKind::kSuspect);
  told.exchange.emplace();
  told.exchange->first_rank = 8;
  told.exchange->ranks = 4;
  EXPECT_THAT(EventOf(told).what, StartsWith("the exchange of ranks 8-11 is slow: "));
}

TEST(StragglerEventsTest, DecisionsTellWhoOrderedThem) {
  RemedyDecision decision = HotSwap(DecisionState::kOrdered);
  decision.by = "ann";
  EXPECT_EQ(EventOf(decision).what, "ordered by ann: hot-swap of rank 4 on w4 (decision 7)");
  decision.automatic = true;
  EXPECT_THAT(EventOf(decision).what, StartsWith("ordered by the automation: "));
  EXPECT_EQ(EventOf(HotSwap(DecisionState::kAdvised)).what,
            "advised: hot-swap of rank 4 on w4 (decision 7): it is slow");
}

TEST(StragglerEventsTest, OnlyDecisionsThatWentWrongAreWarnings) {
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
