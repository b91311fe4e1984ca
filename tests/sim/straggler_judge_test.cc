#include "tests/sim/straggler_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/job/plan.h"
#include "controller/core/stragglers/job/testing/straggler_testing.h"
#include "tests/sim/straggler_options.h"

namespace paceline::sim {
namespace {

using ::testing::HasSubstr;

// A job whose ladder the automation changes. No time passes.
struct Judged {
  RemedyDecision Change(int64_t id, DecisionState state) const {
    RemedyDecision decision;
    decision.id = id;
    decision.kind = RemedyKind::kLadder;
    decision.state = state;
    decision.automatic = true;
    decision.generation = watched.job().generation;
    decision.plan_version = FindActivePlan(watched.job()).version;
    return decision;
  }

  void Decide(int64_t id, DecisionState state) {
    std::map<JobId, std::vector<RemedyDecision>> decisions;
    decisions[watched.id].push_back(Change(id, state));
    Stragglers stragglers(ShortHistoryOptions(), nullptr, nullptr);
    stragglers.Restore(std::move(decisions), *watched.cluster, watched.now);
    StragglerActions decided;
    decided.store.emplace(watched.id, id);
    judge.OnDecided(*watched.cluster, stragglers, decided);
  }

  // The controller dies, and starts with these decisions.
  void Restart(const std::vector<RemedyDecision>& known) {
    Stored stored;
    std::map<JobId, std::vector<RemedyDecision>> decisions;
    for (const RemedyDecision& decision : known) {
      stored.decisions[{watched.id, decision.id}] =
          std::make_shared<const RemedyDecision>(decision);
      decisions[watched.id].push_back(decision);
    }
    judge.OnRestored(stored, decisions);
  }

  std::string failure() const { return world.trace.failure().value_or(""); }

  World world{/*seed=*/1, /*kept_lines=*/0};
  StragglerJudge judge{world};
  WatchedJob watched{WatchedRequest(StragglerMode::kAuto)};
};

TEST(StragglerJudgeTest, OrderThatWasNotStoredHasChangedNothing) {
  Judged judged;
  judged.Decide(1, DecisionState::kOrdered);
  judged.Restart({});
  judged.Decide(1, DecisionState::kOrdered);
  EXPECT_EQ(judged.failure(), "");
}

TEST(StragglerJudgeTest, NobodyRestsAfterAnOrderThatWasNotStored) {
  Judged judged;
  judged.Decide(1, DecisionState::kOrdered);
  judged.Decide(1, DecisionState::kFailed);
  judged.Restart({});
  judged.Decide(1, DecisionState::kOrdered);
  EXPECT_EQ(judged.failure(), "");
}

TEST(StragglerJudgeTest, StoredOrderCountsAfterARestart) {
  Judged judged;
  judged.Decide(1, DecisionState::kOrdered);
  judged.Restart({judged.Change(1, DecisionState::kOrdered)});
  judged.Decide(2, DecisionState::kOrdered);
  EXPECT_THAT(judged.failure(), HasSubstr("ladder_window"));
}

}  // namespace
}  // namespace paceline::sim
