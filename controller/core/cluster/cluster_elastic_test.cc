// An elastic job in a cluster: into which slots it grows, and how it gives them back.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/cluster/cluster.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

class ClusterElasticTest : public ::testing::Test {
 protected:
  // Job e wants two of the four slots on a and b, and takes all.
  ClusterElasticTest() {
    for (const char* name : {"a", "b"}) cluster_.Step(NodeConnected{Facts(name, 2), {}}, At(0));
    JobRequest request = Request("e", 2);
    request.recovery.max_failures = 3;
    request.recovery.min_ranks = 1;
    request.recovery.max_ranks = 4;
    request.recovery.rule = BatchRule::kKeepRank;
    cluster_.Step(JobSubmitted{request}, At(1));
  }

  static JobRequest Request(const char* id, int ranks) {
    JobRequest request = PlayedRequest();
    request.id = JobId(id);
    request.name = id;
    request.ranks = ranks;
    request.checkpoints = {};
    return request;
  }

  const Job& job(const char* id) { return cluster_.jobs().at(JobId(id)); }

  // What a trainer that does as it is told reports.
  static TrainerReport ReportOf(const Job& job, const RankState& trainer) {
    TrainerReport report = trainer.report;
    report.pid = 1000 * report.id.generation.value() + report.id.rank.value() + 1;
    report.store_address = "x:1";
    report.state = TrainerState::kReady;
    if (StopGrace(job, trainer).has_value()) {
      report.state = TrainerState::kExited;
      report.exit = TrainerExit();
    } else if (RankOf(job, trainer) != Rank(-1)) {
      report.state = TrainerState::kRunning;
      report.membership.generation = job.generation;
    }
    return report;
  }

  // A second passes: all nodes report.
  void Tick() {
    ++now_;
    cluster_.Step(TimePassed{}, At(now_));
    std::map<NodeName, std::vector<TrainerReport>> reports;
    for (const auto& [name, node] : cluster_.nodes()) reports[name];
    for (const auto& [id, job] : cluster_.jobs()) {
      for (const RankState* trainer : TrainersOf(job)) {
        reports[trainer->slot.node].push_back(ReportOf(job, *trainer));
      }
    }
    for (const auto& [node, trainers] : reports) {
      cluster_.Step(NodeReported{node, trainers}, At(now_));
    }
  }

  // The second in which the job has so many ranks, and all train; -1: it had not within a minute.
  int WaitForRanks(const char* id, size_t ranks) {
    for (int i = 0; i < 60; ++i) {
      Tick();
      if (job(id).ranks.size() == ranks && job(id).state == JobState::kRunning &&
          ChangeUnderWay(job(id)) == nullptr) {
        return now_;
      }
    }
    return -1;
  }

  int now_ = 1;
  Cluster cluster_{Cluster::Options()};
};

TEST_F(ClusterElasticTest, GrowsWhileNobodyWaitsAndGivesBackWhenSomebodyDoes) {
  const int started = WaitForRanks("e", 2);
  ASSERT_NE(started, -1);
  const int grown = WaitForRanks("e", 4);
  ASSERT_NE(grown, -1);
  EXPECT_GE(grown, started + 20) << "two ranks make up for two pauses of two in 20 s";
  for (int i = 0; i < 15; ++i) Tick();
  cluster_.Step(JobSubmitted{Request("w", 1)}, At(now_));
  EXPECT_EQ(job("w").state, JobState::kQueued);
  EXPECT_EQ(job("e").recovery.give_back_to, 3);
  ASSERT_NE(WaitForRanks("w", 1), -1);
  EXPECT_EQ(job("e").ranks.size(), 3U);
  EXPECT_EQ(job("e").recovery.history.back().reason,
            "gives 1 extra rank back, of 4: job w (w) waits for slots");
  EXPECT_EQ(job("e").state, JobState::kRunning);
  EXPECT_EQ(job("e").recovery.give_back_to, 0);
}

TEST_F(ClusterElasticTest, OrderIsWithdrawnWhenNobodyWaitsAnyMore) {
  ASSERT_NE(WaitForRanks("e", 4), -1);
  cluster_.Step(JobSubmitted{Request("w", 1)}, At(now_));
  ASSERT_EQ(job("e").recovery.give_back_to, 3) << "which waits, as it has just grown";
  cluster_.Step(CancelRequested{JobId("w"), "not needed", absl::ZeroDuration()}, At(now_));
  EXPECT_EQ(job("e").recovery.give_back_to, 0);
  for (int i = 0; i < 20; ++i) Tick();
  EXPECT_EQ(job("e").ranks.size(), 4U);
}

TEST_F(ClusterElasticTest, GrowthThatHasOnlyBegunIsGivenUpForWhoWaits) {
  ASSERT_NE(WaitForRanks("e", 2), -1);
  while (job("e").spares.empty() && now_ < 100) {
    ++now_;
    cluster_.Step(TimePassed{}, At(now_));
    for (const char* node : {"a", "b"}) {
      std::vector<TrainerReport> reports;
      for (const RankState& member : job("e").ranks) {
        if (member.slot.node == NodeName(node)) reports.push_back(ReportOf(job("e"), member));
      }
      cluster_.Step(NodeReported{NodeName(node), reports}, At(now_));
    }
  }
  ASSERT_EQ(job("e").spares.size(), 2U);
  cluster_.Step(JobSubmitted{Request("w", 2)}, At(now_));
  EXPECT_EQ(job("e").recovery.growth_to, 0);
  ASSERT_NE(WaitForRanks("w", 2), -1);
  EXPECT_EQ(job("e").ranks.size(), 2U);
}

TEST_F(ClusterElasticTest, GrowsOnNodesThatNobodyWaitsFor) {
  NodeFacts facts = Facts("c", 1);
  facts.labels["kind"] = "new";
  cluster_.Step(NodeConnected{facts, {}}, At(1));
  for (const char* id : {"x", "w"}) {
    JobRequest request = Request(id, 1);
    request.placement.labels = {{"kind", "new"}};
    cluster_.Step(JobSubmitted{request}, At(1));
  }
  EXPECT_NE(WaitForRanks("e", 4), -1);
  EXPECT_EQ(job("w").state, JobState::kQueued) << "extra ranks elsewhere do not help it";
}

TEST_F(ClusterElasticTest, ExtraRanksDoNotHoldUpADrain) {
  ASSERT_NE(WaitForRanks("e", 4), -1);
  for (int i = 0; i < 15; ++i) Tick();
  Hold hold;
  hold.drain = DrainMode::kSwap;
  hold.owner = "ann";
  cluster_.Step(HoldRequested{NodeName("a"), hold}, At(now_));
  EXPECT_EQ(job("e").recovery.give_back_to, 2);
  for (int i = 0; i < 120 && HasTrainersOn(job("e"), NodeName("a")); ++i) Tick();
  EXPECT_FALSE(HasTrainersOn(job("e"), NodeName("a")));
  EXPECT_EQ(job("e").ranks.size(), 2U);
  EXPECT_EQ(job("e").state, JobState::kRunning);
  EXPECT_EQ(job("e").restarts, 0);
}

TEST_F(ClusterElasticTest, EachTrainerOfAGrowthHasASlotOfItsOwn) {
  cluster_.Step(NodeConnected{Facts("c", 5), {}}, At(1));
  JobRequest request = Request("g", 1);
  request.recovery.max_failures = 3;
  request.recovery.min_ranks = 1;
  request.recovery.max_ranks = 4;
  request.recovery.rule = BatchRule::kKeepRank;
  cluster_.Step(JobSubmitted{request}, At(1));
  ASSERT_NE(WaitForRanks("e", 4), -1);
  ASSERT_NE(WaitForRanks("g", 4), -1);
  std::set<std::pair<NodeName, int>> slots;
  for (const char* id : {"e", "g"}) {
    for (const RankState& member : job(id).ranks) {
      EXPECT_TRUE(slots.emplace(member.slot.node, member.slot.number).second);
    }
  }
}

TEST_F(ClusterElasticTest, StartsWithFewerThanItWantsAndFitsIfTheFewestDo) {
  JobRequest large = Request("f", 8);
  large.recovery.max_failures = 3;
  EXPECT_FALSE(cluster_.CanEverFit(large).ok());
  large.recovery.min_ranks = 2;
  large.recovery.max_ranks = 8;
  large.recovery.rule = BatchRule::kKeepRank;
  EXPECT_TRUE(cluster_.CanEverFit(large).ok());
  cluster_.Step(JobSubmitted{large}, At(1));
  EXPECT_EQ(job("f").ranks.size(), 2U) << "the other two are those of e";
}

}  // namespace
}  // namespace paceline
