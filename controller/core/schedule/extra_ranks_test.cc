// Extra ranks of running jobs, and what becomes of them when others wait: through whole passes.
#include "controller/core/schedule/extra_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/testing/small_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ElasticCluster : public SmallCluster {
 public:
  // The job takes so many free slots, wherever they are.
  void Grow(const std::string& name, int more) {
    Job& job = (*this)[name];
    for (const NodeSpace& space : Spaces(job.request.device)) {
      if (!space.open) continue;
      for (const int number : space.free) {
        if (more-- <= 0) return;
        job.ranks.emplace_back().slot = {space.name, number};
      }
    }
  }

  // "b:3 for job w (name-w)".
  std::string Given() const {
    std::string text;
    for (const auto& [id, back] : last.give_backs) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", id.value(), ":", back.ranks, " for ",
                      back.beneficiary);
    }
    return text;
  }

  // What jobs do that are to give ranks back.
  void CarryOut() {
    for (const auto& [id, back] : last.give_backs) {
      Job& job = jobs.at(id);
      ASSERT_LT(back.ranks, static_cast<int>(job.ranks.size()));
      ASSERT_GE(back.ranks, job.request.ranks) << id.value();
      job.ranks.resize(static_cast<size_t>(back.ranks));
    }
  }
};

// A job that wants 2 ranks and has 4, on a node of 4 slots.
ElasticCluster Full() {
  ElasticCluster cluster;
  cluster.AddNode("a", 4);
  cluster.SubmitElastic("e", 1, 2, 8);
  cluster.Pass();
  cluster.Grow("e", 2);
  return cluster;
}

TEST(ExtraRanksTest, WhoWaitsGetsNoMoreThanItNeeds) {
  ElasticCluster cluster = Full();
  EXPECT_THAT(cluster.Pass().give_backs, IsEmpty()) << "nobody waits";
  cluster.Submit("w", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:3 for job w (name-w)");
  EXPECT_EQ(cluster.last.waits.at(JobId("w")).kind, Wait::Kind::kReservation);
  cluster.CarryOut();
  cluster.Pass();
  EXPECT_EQ(cluster.Started(), "w");
  EXPECT_EQ(cluster.Given(), "");
}

TEST(ExtraRanksTest, AllWhoWaitAreServedAtOnce) {
  ElasticCluster cluster = Full();
  cluster.Submit("v", 1);
  cluster.Submit("w", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:2 for job v (name-v)");
  cluster.CarryOut();
  cluster.Pass();
  EXPECT_EQ(cluster.Started(), "v w");
}

TEST(ExtraRanksTest, NothingIsGivenThatHelpsNobody) {
  ElasticCluster cluster = Full();
  cluster.Submit("w", 3);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "") << "it would wait all the same";
  cluster.AddNode("b", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:2 for job w (name-w)");
}

TEST(ExtraRanksTest, SlotsElsewhereAreOfNoUse) {
  ElasticCluster cluster = Full();
  cluster.AddNode("b", 1, {{"kind", "new"}});
  cluster.Submit("other", 1).request.placement.labels = {{"kind", "new"}};
  cluster.Pass();
  ASSERT_EQ(cluster.Started(), "other");
  cluster.Submit("w", 1).request.placement.labels = {{"kind", "new"}};
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "");
}

TEST(ExtraRanksTest, LowestPriorityGivesFirstThenTheLastStarted) {
  ElasticCluster cluster;
  cluster.AddNode("a", 6);
  cluster.SubmitElastic("low", 1, 1, 8, -1);
  cluster.Pass();
  cluster.SubmitElastic("early", 1, 1, 8);
  cluster.Pass();
  cluster.SubmitElastic("late", 1, 1, 8);
  cluster.Pass();
  for (const char* job : {"low", "early", "late"}) cluster.Grow(job, 1);
  cluster.Submit("w", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "low:1 for job w (name-w)");
  cluster.Submit("x", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "late:1 for job x (name-x), low:1 for job w (name-w)");
}

TEST(ExtraRanksTest, JobGoesDownToNumbersWithWhichItCanTrain) {
  ElasticCluster cluster = Full();
  Job& job = cluster["e"];
  job.request.recovery.rule = BatchRule::kKeepGlobal;
  job.request.recovery.batch = {4, 1};
  cluster.Submit("w", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:2 for job w (name-w)") << "three cannot share 8 samples";
}

TEST(ExtraRanksTest, GivenBackBeforeOthersAreDisplaced) {
  ElasticCluster cluster;
  cluster.AddNode("a", 4);
  cluster.SubmitSaving("v1", 1);
  cluster.SubmitSaving("v2", 1);
  cluster.SubmitElastic("e", 1, 1, 8, 5);
  cluster.Pass();
  cluster.Grow("e", 1);
  cluster.Submit("w", 1, 5);
  cluster.Pass();
  EXPECT_THAT(cluster.last.preemptions, IsEmpty());
  EXPECT_EQ(cluster.Given(), "e:1 for job w (name-w)");
  cluster.End("w");
  cluster.Submit("x", 2, 5);
  cluster.Pass();
  EXPECT_EQ(cluster.last.preemptions.size(), 1U) << "one is displaced, not both";
  EXPECT_EQ(cluster.Given(), "e:1 for job x (name-x)");
}

TEST(ExtraRanksTest, QuotaThatExtraRanksUseUpIsGivenBackWithinTheQueue) {
  ElasticCluster cluster;
  cluster.queues["narrow"].slots = 4;
  cluster.AddNode("a", 20);
  cluster.SubmitElastic("e", 1, 2, 8, 0, "narrow");
  cluster.SubmitElastic("f", 1, 2, 8);
  cluster.Pass();
  cluster.Grow("e", 2);
  cluster.Grow("f", 2);
  cluster.Submit("w", 1, 0, "narrow");
  cluster.Pass();
  EXPECT_EQ(cluster.last.waits.at(JobId("w")).kind, Wait::Kind::kQuota);
  EXPECT_EQ(cluster.Given(), "e:3 for job w (name-w)");
  cluster.Submit("x", 1, 0, "narrow");
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:2 for job w (name-w)");
  cluster.CarryOut();
  cluster.Pass();
  EXPECT_EQ(cluster.Started(), "w x");
}

TEST(ExtraRanksTest, RunningJobThatLacksARankGetsOne) {
  ElasticCluster cluster;
  cluster.AddNode("a", 4);
  Job& lacking = cluster.Submit("r", 2);
  lacking.request.recovery.max_failures = 1;
  lacking.request.recovery.min_ranks = 1;
  cluster.SubmitElastic("e", 1, 1, 8);
  cluster.Pass();
  lacking.ranks.resize(1);
  cluster.Grow("e", 2);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:2 for job r (name-r)");
  cluster.CarryOut();
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "") << "there is a free slot now";
}

// A job that the quota of its queue keeps from growing gets nothing from other queues.
TEST(ExtraRanksTest, RunningJobGetsNoMoreThanItsQuotaAllows) {
  ElasticCluster cluster;
  cluster.queues["narrow"].slots = 3;
  cluster.AddNode("a", 8);
  cluster.SubmitElastic("b", 2, 4, 4, 0, "narrow");
  cluster.SubmitElastic("e", 1, 2, 8);
  cluster.Pass();
  ASSERT_EQ(cluster["b"].ranks.size(), 3U);
  cluster.Grow("e", 3);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "");
  cluster.queues["narrow"].slots = 4;
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:4 for job b (name-b)");
}

TEST(ExtraRanksTest, QuotaIsGivenBackToRunningJobsOfTheQueueToo) {
  ElasticCluster cluster;
  cluster.queues["narrow"].slots = 3;
  cluster.AddNode("a", 8);
  cluster.SubmitElastic("b", 2, 4, 4, 0, "narrow");
  cluster.Pass();
  cluster.queues["narrow"].slots = 6;
  cluster.SubmitElastic("e", 1, 2, 8, 0, "narrow");
  cluster.Pass();
  cluster.Grow("e", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:2 for job b (name-b)") << "slots are free, but not of the quota";
}

TEST(ExtraRanksTest, RunningJobGetsNothingThatItCannotUse) {
  ElasticCluster cluster;
  cluster.AddNode("a", 5);
  Job& lacking = cluster.Submit("r", 4);
  lacking.request.recovery.max_failures = 1;
  lacking.request.recovery.min_ranks = 1;
  lacking.request.recovery.batch = {4, 1};
  cluster.SubmitElastic("e", 1, 1, 8);
  cluster.Pass();
  lacking.ranks.resize(2);
  cluster.Submit("o", 1);
  cluster.Pass();
  ASSERT_EQ(cluster.Started(), "o");
  cluster.Grow("e", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "") << "three ranks could not share 16 samples";
  cluster.End("o");
  cluster.Grow("e", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:1 for job r (name-r)");
}

TEST(ExtraRanksTest, RanksThatHaveToLeaveANodeGetSlots) {
  ElasticCluster cluster;
  cluster.AddNode("a", 4);
  cluster.AddNode("b", 2);
  Job& moving = cluster.Submit("r", 2);
  moving.request.recovery.max_failures = 1;
  cluster.SubmitElastic("e", 1, 2, 8);
  cluster.Pass();
  ASSERT_EQ(cluster.SlotsOf("r"), "b0 b1");
  cluster.Grow("e", 2);
  cluster.nodes[NodeName("b")].open = false;
  moving.recovery.vacate[NodeName("b")] = "drained";
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "e:2 for job r (name-r)");
}

TEST(ExtraRanksTest, JobWhoseRanksHaveToMoveGivesUpItsOwnExtraRanksForThat) {
  ElasticCluster cluster;
  cluster.AddNode("a", 2);
  cluster.AddNode("b", 2);
  Job& job = cluster.SubmitElastic("e", 1, 2, 8);
  cluster.Pass();
  ASSERT_EQ(cluster.SlotsOf("e"), "a0 a1");
  cluster.Grow("e", 2);
  for (const char* drained : {"a", "b"}) {
    job.recovery.vacate = {{NodeName(drained), "drained"}};
    for (auto& [name, node] : cluster.nodes) node.open = name != NodeName(drained);
    cluster.Pass();
    EXPECT_EQ(cluster.Given(), "e:2 for a rank that has to move") << drained;
  }
}

// What a job gives back is not counted again when it is displaced.
TEST(ExtraRanksTest, DisplacedJobFreesItsSlotsOnce) {
  ElasticCluster cluster;
  cluster.AddNode("a", 4);
  cluster.SubmitElastic("e", 1, 1, 8, -1);
  cluster.SubmitSaving("v", 1);
  cluster.Pass();
  cluster.Grow("e", 2);
  cluster.Submit("w", 4, 5);
  cluster.Pass();
  EXPECT_EQ(cluster.last.preemptions.size(), 2U) << "all four slots are needed";
}

TEST(ExtraRanksTest, JobThatLeavesGivesNothingBeside) {
  ElasticCluster cluster = Full();
  cluster["e"].checkpoints.stop_after.emplace();
  cluster.Submit("w", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "");
}

TEST(ExtraRanksTest, WhatAlreadyLeavesIsNotAskedForAgain) {
  ElasticCluster cluster = Full();
  Job& job = cluster["e"];
  job.leaving.push_back(job.ranks.back());
  job.ranks.pop_back();
  cluster.Submit("w", 1);
  cluster.Pass();
  EXPECT_EQ(cluster.Given(), "");
  EXPECT_EQ(cluster.last.waits.at(JobId("w")).kind, Wait::Kind::kReservation);
}

TEST(ExtraRanksTest, NobodyIsDisplacedForSlotsOfAGrowthThatHasOnlyBegun) {
  for (const bool grows : {true, false}) {
    ElasticCluster cluster;
    cluster.AddNode("a", 3);
    cluster.SubmitElastic("e", 1, 2, 8, 5);
    cluster.SubmitSaving("victim", 1);
    cluster.Pass();
    cluster.AddNode("b", 1);
    Job& job = cluster["e"];
    job.recovery.growth_to = grows ? 3 : 0;
    job.request.spares = grows ? 0 : 1;
    job.spares.emplace_back().slot = {NodeName("b"), 0};
    cluster.Submit("w", 1, 5);
    cluster.Pass();
    EXPECT_EQ(cluster.last.preemptions.size(), grows ? 0U : 1U);
    EXPECT_EQ(cluster.Given(), "");
  }
}

TEST(ElasticStartTest, JobStartsWithAsManyRanksAsThereIsRoomFor) {
  ElasticCluster cluster;
  cluster.AddNode("a", 3);
  cluster.SubmitElastic("e", 2, 4, 4);
  cluster.Pass();
  EXPECT_EQ(cluster.Started(), "e");
  EXPECT_EQ(cluster.SlotsOf("e"), "a0 a1 a2");
  cluster.End("e");
  Job& job = cluster.SubmitElastic("g", 1, 4, 4);
  job.request.recovery.rule = BatchRule::kKeepGlobal;
  cluster.Pass();
  EXPECT_EQ(cluster.SlotsOf("g"), "a0 a1") << "three could not share four samples";
}

TEST(ElasticStartTest, LessIsReservedThanItWants) {
  ElasticCluster cluster;
  cluster.AddNode("a", 4);
  cluster.Submit("running", 3);
  cluster.Pass();
  cluster.SubmitElastic("e", 2, 4, 4);
  cluster.Submit("small", 1);
  cluster.Pass();
  EXPECT_THAT(cluster.last.waits.at(JobId("e")).reason, HasSubstr("waits for 2 slots: 1 free now"));
  ASSERT_EQ(cluster.last.reservations.size(), 1U);
  EXPECT_EQ(cluster.last.reservations[0].kept.at(NodeName("a")), 2);
  EXPECT_EQ(cluster.Started(), "") << "a slot is reserved";
}

TEST(ElasticStartTest, QuotaLimitsHowManyRanksStart) {
  ElasticCluster cluster;
  cluster.queues["narrow"].slots = 3;
  cluster.AddNode("a", 8);
  cluster.SubmitElastic("e", 2, 4, 4, 0, "narrow");
  cluster.Pass();
  EXPECT_EQ(cluster["e"].ranks.size(), 3U);
}

// A random cluster in which some jobs have extra ranks and some others wait.
ElasticCluster RandomCluster(int seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  const auto below = [&](int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(random);
  };
  ElasticCluster cluster;
  const int nodes = 1 + below(4);
  for (int n = 0; n < nodes; ++n) cluster.AddNode(absl::StrCat("n", n), 1 + below(5));
  const int elastic = 1 + below(3);
  for (int j = 0; j < elastic; ++j) {
    const int ranks = 1 + below(3);
    Job& job = cluster.SubmitElastic(absl::StrCat("e", j), 1 + below(ranks), ranks, 12);
    if (below(2) == 0) job.request.recovery.rule = BatchRule::kKeepGlobal;
    job.request.recovery.batch = {6, 1};
  }
  cluster.Pass();
  for (auto& [id, job] : cluster.jobs) {
    if (job.state != JobState::kRunning) continue;
    const int present = static_cast<int>(job.ranks.size());
    cluster.Grow(id.value(), PossibleRanksOf(job.request, present + below(5)) - present);
  }
  const int waiting = below(4);
  for (int w = 0; w < waiting; ++w) cluster.Submit(absl::StrCat("w", w), 1 + below(5));
  return cluster;
}

// Slots that the jobs could give back, and those that they are to.
std::pair<int, int> CountExtra(const ElasticCluster& cluster) {
  int extra = 0;
  int given = 0;
  for (const auto& [id, job] : cluster.jobs) {
    const int present = static_cast<int>(job.ranks.size());
    const std::vector<int> steps = StepsDown(job);
    if (!steps.empty()) extra += present - steps.back();
    const auto back = cluster.last.give_backs.find(id);
    if (back != cluster.last.give_backs.end()) given += present - back->second.ranks;
  }
  return {extra, given};
}

// Of those that wait, the one that was submitted first; null: nobody waits.
const Job* FirstWaiting(const ElasticCluster& cluster) {
  const Job* first = nullptr;
  for (const auto& [id, wait] : cluster.last.waits) {
    const Job& job = cluster.jobs.at(id);
    if (first == nullptr || job.number < first->number) first = &job;
  }
  return first;
}

// Whoever would fit if others had no extra ranks starts once these are given back; and nobody gives
// any in vain.
TEST(ExtraRanksTest, ExtraRanksNeverKeepTheFirstInTheQueueWaiting) {
  for (int seed = 0; seed < 400; ++seed) {
    ElasticCluster cluster = RandomCluster(seed);
    cluster.Pass();
    int free = 0;
    for (const NodeSpace& space : cluster.Spaces(Device::kCpu)) {
      free += static_cast<int>(space.free.size());
    }
    const auto [extra, given] = CountExtra(cluster);
    const Job* const first = FirstWaiting(cluster);
    const bool lacks = std::any_of(cluster.jobs.begin(), cluster.jobs.end(), [](const auto& entry) {
      return MissingRanks(entry.second) > 0;
    });
    ASSERT_TRUE(given == 0 || first != nullptr || lacks) << seed;
    cluster.CarryOut();
    if (first == nullptr) continue;
    const int least = LeastToStart(first->request);
    if (free + extra < least) continue;
    EXPECT_GE(free + given, least) << seed << " " << cluster.Given();
    cluster.Pass();
    EXPECT_EQ(first->state, JobState::kRunning) << seed;
  }
}

}  // namespace
}  // namespace paceline
