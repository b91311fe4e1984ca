#include "bench/stragglers/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace paceline::detect {
namespace {

// Without noise, checkpoints and transients.
constexpr char kQuiet[] =
    "ranks=32 ranks_per_node=4 stages=2 steps=200 step_s=2 noise=gaussian sd=0 spread=0 drift=0 "
    "pauses=0 loader=0 checkpoint_every=0 transients=0 ";

HistorySpec Spec(const std::string& text) {
  const auto spec = ParseSpec(text);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

struct Played {
  std::vector<Fault> faults;
  std::vector<StepSample> reports;
  std::vector<int64_t> arrived;  // Step of arrival, by report.
  int restarts = 0;
};

Played Play(const std::string& text, uint64_t seed = 1) {
  History history(Spec(text), seed);
  Played played;
  played.faults = history.faults();
  std::vector<StepSample> arrivals;
  bool restarted = false;
  for (bool more = true; more;) {
    more = history.Next(arrivals, restarted);
    if (restarted) ++played.restarts;
    for (const StepSample& sample : arrivals) {
      played.reports.push_back(sample);
      played.arrived.push_back(history.step());
    }
  }
  return played;
}

double Compute(const StepSample& sample) { return sample.forward_s + sample.backward_s; }

TEST(HistoryTest, SameSeedSameHistory) {
  const auto sum = [](uint64_t seed, const std::string& spec) {
    double total = 0;
    for (const StepSample& sample : Play(spec, seed).reports) total += Compute(sample);
    return total;
  };
  EXPECT_EQ(sum(5, "ranks=16 steps=100"), sum(5, "ranks=16 steps=100"));
  EXPECT_NE(sum(5, "ranks=16 steps=100"), sum(6, "ranks=16 steps=100"));
  // Two specs do not share random numbers either.
  EXPECT_NE(sum(5, "ranks=16 steps=100"), sum(5, "ranks=16 steps=100 on=31"));
}

TEST(HistoryTest, FaultIsAsLabelled) {
  const Played played = Play(std::string(kQuiet) + "faults=2 factor=1.5 last_stage=1.6");
  ASSERT_EQ(played.faults.size(), 2);
  EXPECT_NE(played.faults[0].stage, played.faults[1].stage);
  for (const StepSample& sample : played.reports) {
    if (sample.step < 10) continue;  // Warm-up.
    double expected = sample.rank < 16 ? 2 : 3.2;
    for (const Fault& fault : played.faults) {
      if (fault.Covers(sample.rank) && sample.step >= fault.begin) expected *= 1.5;
    }
    ASSERT_NEAR(Compute(sample), expected, 1e-9) << sample.rank << " at " << sample.step;
  }
}

TEST(HistoryTest, WallTimeDoesNotTellWhoIsSlow) {
  const Played played = Play(std::string(kQuiet) + "faults=1 factor=2 onset=0.5");
  std::set<double> walls;
  for (const StepSample& sample : played.reports) {
    if (sample.step == 150) walls.insert(sample.wall_s);
  }
  EXPECT_EQ(walls.size(), 1);
}

TEST(HistoryTest, ShapesOfFaults) {
  Fault fault;
  fault.factor = 1.4;
  fault.begin = 10;
  fault.end = 100;
  fault.ramp = 4;
  fault.on = 2;
  fault.off = 3;
  EXPECT_EQ(fault.FactorAt(9), 1);
  EXPECT_EQ(fault.FactorAt(10), 1.4);
  EXPECT_EQ(fault.FactorAt(100), 1);
  fault.shape = Shape::kRamp;
  EXPECT_NEAR(fault.FactorAt(10), 1.1, 1e-12);
  EXPECT_NEAR(fault.FactorAt(13), 1.4, 1e-12);
  EXPECT_NEAR(fault.FactorAt(50), 1.4, 1e-12);
  fault.shape = Shape::kIntermittent;
  EXPECT_EQ(fault.FactorAt(11), 1.4);
  EXPECT_EQ(fault.FactorAt(12), 1);
  EXPECT_EQ(fault.FactorAt(15), 1.4);
}

TEST(HistoryTest, ScopesOfFaults) {
  const auto ranks = [](const std::string& scope) {
    return Play(std::string(kQuiet) + "faults=1 scope=" + scope).faults.at(0).ranks.size();
  };
  EXPECT_EQ(ranks("rank"), 1);
  EXPECT_EQ(ranks("node"), 4);
  EXPECT_EQ(ranks("group share=0.375"), 6);
  EXPECT_EQ(ranks("stage"), 16);
  EXPECT_EQ(ranks("job"), 32);
}

TEST(HistoryTest, ANodeWithManyOfItsPeersIsAGroup) {
  const auto fault = [](const std::string& spec) {
    return Play("steps=100 stages=1 factor=1.2 transients=0 faults=1 scope=node " + spec)
        .faults.at(0);
  };
  const Fault half = fault("ranks=16 ranks_per_node=8");
  EXPECT_EQ(half.scope, Scope::kGroup);
  EXPECT_EQ(half.ranks.size(), 8);
  EXPECT_EQ(fault("ranks=12 ranks_per_node=4").scope, Scope::kGroup);
  EXPECT_EQ(fault("ranks=32 ranks_per_node=8").scope, Scope::kNode) << "just a quarter";
  const Played transients =
      Play("ranks=16 stages=1 steps=500 transients=10 transient_nodes=yes faults=0");
  ASSERT_FALSE(transients.faults.empty());
  EXPECT_EQ(transients.faults[0].scope, Scope::kGroup);
}

TEST(HistoryTest, SeveralRanksOfANodeMayBeSlow) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Played played =
        Play(std::string(kQuiet) + "ranks=8 stages=1 fault_ranks=2 faults=1 factor=1.5", seed);
    ASSERT_EQ(played.faults.size(), 1);
    const Fault& fault = played.faults[0];
    ASSERT_EQ(fault.ranks.size(), 2);
    EXPECT_LT(fault.ranks[0], fault.ranks[1]);
    EXPECT_EQ(fault.ranks[0] / 4, fault.ranks[1] / 4);
    EXPECT_EQ(fault.scope, Scope::kRank);
    EXPECT_EQ(fault.usual.size(), 2);
  }
}

TEST(HistoryTest, NoMoreThanAQuarterIsSlowForGood) {
  const auto faults = [](const std::string& spec) { return Play("steps=100 " + spec).faults; };
  EXPECT_EQ(faults("ranks=8 ranks_per_node=1 stages=1 faults=4 transients=0").size(), 2);
  EXPECT_EQ(faults("ranks=16 ranks_per_node=8 stages=1 faults=4 transients=0 scope=node").size(),
            1);
  EXPECT_EQ(faults("ranks=16 ranks_per_node=1 faults=4 transients=0").size(), 4);
  EXPECT_EQ(faults("ranks=32 ranks_per_node=8 stages=2 faults=4 transients=0 scope=node").size(),
            2);
  EXPECT_EQ(faults("ranks=3 ranks_per_node=1 stages=1 faults=2 transients=0").size(), 1);
}

TEST(HistoryTest, FaultsTogetherBeginAtOnceOnNodesOfOneStage) {
  const Played played = Play(std::string(kQuiet) + "faults=3 together=yes");
  ASSERT_EQ(played.faults.size(), 3);
  std::set<int> nodes;
  for (const Fault& fault : played.faults) {
    EXPECT_EQ(fault.begin, played.faults[0].begin);
    EXPECT_EQ(fault.stage, played.faults[0].stage);
    nodes.insert(fault.ranks[0] / 4);
  }
  EXPECT_EQ(nodes.size(), 3);
}

TEST(HistoryTest, CausesShowInDifferentTimes) {
  const auto last = [](const std::string& cause) {
    const Played played = Play(std::string(kQuiet) + "faults=1 factor=1.5 cause=" + cause);
    StepSample found;
    for (const StepSample& sample : played.reports) {
      if (played.faults[0].Covers(sample.rank)) found = sample;
    }
    return found;
  };
  const double stage = Compute(last("compute")) / 1.5;
  EXPECT_NEAR(last("compute").backward_s, stage * 0.65 * 1.5, 1e-9);
  EXPECT_NEAR(Compute(last("data")) + last("data").data_wait_s, Compute(last("data")) * 1.5 + 0.002,
              1e-9);
  EXPECT_NEAR(last("pause").forward_s / last("pause").backward_s, (0.35 + 0.5) / 0.65, 1e-9);
}

TEST(HistoryTest, TransientsEndAndAreNeverOnASlowRank) {
  const Played played = Play("ranks=64 steps=500 transients=30 faults=4");
  std::set<int> seen;
  int transients = 0;
  for (const Fault& fault : played.faults) {
    if (!fault.lasting) ++transients;
    EXPECT_LE(fault.end, 500);
    for (const int rank : fault.ranks) EXPECT_TRUE(seen.insert(rank).second) << rank;
  }
  EXPECT_GT(transients, 10);
}

TEST(HistoryTest, TransientsMayMeetNodes) {
  const Played played = Play("ranks=128 steps=500 transients=10 transient_nodes=yes faults=0");
  ASSERT_FALSE(played.faults.empty());
  for (const Fault& fault : played.faults) {
    EXPECT_EQ(fault.ranks.size(), 8);
    EXPECT_EQ(fault.scope, Scope::kNode);
    EXPECT_FALSE(fault.lasting);
  }
}

TEST(HistoryTest, ReportsAreLostLateAndRepeated) {
  const Played played =
      Play(std::string(kQuiet) + "missing=0.1 late=0.1 repeated=0.1 reordered=yes garbage=0.02");
  int late = 0;
  int garbage = 0;
  std::set<std::pair<int, int64_t>> different;
  for (size_t i = 0; i < played.reports.size(); ++i) {
    const StepSample& sample = played.reports[i];
    different.emplace(sample.rank, sample.step);
    EXPECT_LE(played.arrived[i], sample.step + 5);
    if (played.arrived[i] > sample.step) ++late;
    if (!(sample.forward_s >= 0 && sample.backward_s >= 0 && sample.forward_s < 1000)) ++garbage;
  }
  const double all = 32 * 200;
  EXPECT_NEAR(static_cast<double>(different.size()) / all, 0.9, 0.03);
  EXPECT_NEAR(static_cast<double>(played.reports.size() - different.size()) / all, 0.08, 0.03);
  EXPECT_NEAR(late / all, 0.17, 0.04);
  EXPECT_NEAR(garbage / all, 0.02, 0.01);
}

TEST(HistoryTest, NothingIsDeliveredAcrossARestart) {
  const Played played = Play(std::string(kQuiet) + "restarts=2 late=0.3");
  EXPECT_EQ(played.restarts, 2);
  EXPECT_LT(played.reports.size(), 32 * 200);
}

TEST(HistoryTest, CheckpointsAreMarkedAndLonger) {
  const Played played = Play(std::string(kQuiet) + "faults=0 last_stage=1 checkpoint_every=50");
  for (const StepSample& sample : played.reports) {
    EXPECT_EQ(sample.masked, sample.step % 50 == 49);
    if (!sample.masked) continue;
    EXPECT_GT(Compute(sample), 2.3);
  }
}

TEST(HistoryTest, WorkIsReportedOnRequest) {
  const std::string imbalance =
      std::string(kQuiet) + "imbalance=0.2 faults=0 last_stage=1 workload=";
  for (const StepSample& sample : Play(imbalance + "yes").reports) {
    ASSERT_GT(sample.workload, 0);
    if (sample.step < 10) continue;
    ASSERT_NEAR(Compute(sample), 2 * (0.05 + 0.95 * sample.workload), 1e-9);
  }
  for (const StepSample& sample : Play(imbalance + "no").reports) EXPECT_EQ(sample.workload, 0);
}

TEST(HistoryTest, FaultsKnowHowTheirRanksDifferAnyway) {
  const Played played = Play(std::string(kQuiet) + "faults=1 factor=1.5 spread=0.05 onset=0");
  ASSERT_EQ(played.faults.size(), 1U);
  const Fault& fault = played.faults[0];
  std::vector<double> peers;
  double own = 0;
  for (const StepSample& sample : played.reports) {
    if (sample.step != 100 || sample.rank / 16 != fault.ranks[0] / 16) continue;
    const double compute = sample.forward_s + sample.backward_s;
    if (sample.rank == fault.ranks[0]) own = compute;
    if (sample.rank / 4 != fault.ranks[0] / 4) peers.push_back(compute);
  }
  ASSERT_EQ(peers.size(), 12U);
  std::sort(peers.begin(), peers.end());
  EXPECT_NEAR(fault.SlowdownOf(fault.ranks[0]), own / ((peers[5] + peers[6]) / 2), 1e-9);
  EXPECT_NE(fault.SlowdownOf(fault.ranks[0]), 1.5);
}

}  // namespace
}  // namespace paceline::detect
