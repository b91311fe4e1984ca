// Jobs with Slipstream in real trainer processes whose ranks share gradients in groups of two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_files.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/saving_test.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr char kGroups[] =
    "strategy { slipstream { mode: SLIPSTREAM_FREE window { min_steps: 1 max_steps: 2 max_cap: 8 "
    "} } gradient_group_size: 2 } ";

class SlipstreamGroupTest : public SavingTest {
 protected:
  static int64_t OwnSteps(const FakeDaemon& daemon, int rank) {
    return daemon.status(rank).figures().slipstream().steps();
  }
  static std::vector<StepRecord> Records(const FakeDaemon& daemon, int rank) {
    absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(rank));
    EXPECT_TRUE(ring.ok()) << ring.status();
    return ring->ReadFrom(0).records;
  }
};

TEST_F(SlipstreamGroupTest, AStallHoldsUpItsGroupAndNotTheOtherOne) {
  const auto daemon = RunJob(Spec(
      kRanks, absl::StrCat(kGroups,
                           "steps: 300 log_every: 100 batch_per_rank: 32 model { mlp { hidden: 512 "
                           "hidden: 512 } } optimizer { learning_rate: 0.01 } allow_chaos: true "
                           "chaos { rank: 1 step: 5 kind: SLEEP seconds: 3 } ",
                           Evaluated(0), ExportTo("final"))));
  ExpectEqualModels("final", kRanks);
  EXPECT_GT(daemon->status(1).evaluation().accuracy(), 0.9);
  EXPECT_EQ(OwnSteps(*daemon, 0), OwnSteps(*daemon, 1)) << "a group makes the same steps";
  EXPECT_EQ(OwnSteps(*daemon, 2), OwnSteps(*daemon, 3));
  EXPECT_GT(OwnSteps(*daemon, 2), 300) << "the other group has done its part, too";
  EXPECT_LT(OwnSteps(*daemon, 1), 300);
  const auto& levels = daemon->status(0).figures().levels();
  ASSERT_EQ(levels.size(), 1);
  EXPECT_EQ(levels[0].group_size(), 2);
  EXPECT_TRUE(levels[0].gradients());
}

// At each step, both ranks of a group report the norm of their mean gradient.
TEST_F(SlipstreamGroupTest, AGroupSharesItsGradients) {
  const auto daemon = RunJob(Spec(kRanks, absl::StrCat(kGroups, "steps: 60 ")));
  const auto norms = [&](int rank) {
    std::vector<float> norms;
    for (const StepRecord& record : Records(*daemon, rank)) norms.push_back(record.grad_norm);
    return norms;
  };
  EXPECT_EQ(norms(0), norms(1));
  EXPECT_EQ(norms(2), norms(3));
  EXPECT_NE(norms(0), norms(2));
}

TEST_F(SlipstreamGroupTest, StopsAreEvaluatedAndSavedAndGoOn) {
  const std::string job =
      absl::StrCat(kGroups, "steps: 150 log_every: 50 ", Evaluated(50), ExportTo("final"));
  RunJob(Spec(kRanks, job + SaveTo("out", "every_steps: 60")));
  ExpectEqualModels("final", kRanks);
  const auto found = SettleCheckpoints(JobDirectory("out"), 1);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_FALSE(found->empty());
  const auto resumed =
      Resume(Spec(kRanks, job + SaveTo("again")), Checkpoint("out", found->front().step));
  ExpectEqualModels("final", kRanks);
  EXPECT_EQ(resumed->status(1).evaluation().step(), 150);
  EXPECT_GT(resumed->status(1).evaluation().accuracy(), 0.9);
  EXPECT_EQ(OwnSteps(*resumed, 0), OwnSteps(*resumed, 1));
}

// The mean of both ranks' gradients is bad, whichever rank caused it.
TEST_F(SlipstreamGroupTest, ABadGradientIsSkippedByItsWholeGroup) {
  const auto daemon =
      RunJob(Spec(kRanks, absl::StrCat(kGroups,
                                       "steps: 100 on_nonfinite: NON_FINITE_SKIP allow_chaos: true "
                                       "chaos { rank: 1 step: 7 kind: NAN_LOSS } ",
                                       Evaluated(0), ExportTo("final"))));
  ExpectEqualModels("final", kRanks);
  EXPECT_GT(daemon->status(0).evaluation().accuracy(), 0.9);
  for (const int rank : {0, 1}) EXPECT_EQ(daemon->status(rank).figures().skipped_steps(), 1);
  for (const int rank : {2, 3}) EXPECT_EQ(daemon->status(rank).figures().skipped_steps(), 0);
}

TEST_F(SlipstreamGroupTest, ABadLossNamesItsRank) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(kRanks, absl::StrCat(kGroups,
                                           "steps: 1000000 log_every: 1000 allow_chaos: true "
                                           "chaos { rank: 1 step: 7 kind: NAN_LOSS } ")));
  ASSERT_TRUE(daemon->Serve());
  EXPECT_EQ(daemon->LastWords(1).error().kind(), v1::FAILURE_ERROR);
  EXPECT_THAT(daemon->LastWords(1).error().message(), HasSubstr("of rank 1: the loss is nan"));
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(daemon->LastWords(rank).error().kind(), v1::FAILURE_COLLECTIVE) << rank;
  }
}

TEST_F(SlipstreamGroupTest, ModesChangeWhileItTrains) {
  const auto daemon = MakeDaemon();
  const v1::JobSpec spec =
      Spec(kRanks, absl::StrCat(kGroups,
                                "steps: 1000000 log_every: 1000 allow_chaos: true chaos { rank: 3 "
                                "kind: SLEEP seconds: 0.05 step: 20 steps: 1000000 } "));
  daemon->Launch(spec);
  int64_t version = 1;
  for (const v1::SlipstreamMode mode :
       {v1::SLIPSTREAM_DROP, v1::SLIPSTREAM_FREE, v1::SLIPSTREAM_SYNC, v1::SLIPSTREAM_PAUSE,
        v1::SLIPSTREAM_DROP, v1::SLIPSTREAM_FREE}) {
    v1::Strategy strategy = spec.strategy();
    strategy.mutable_slipstream()->set_mode(mode);
    daemon->SetPlan(daemon->MakePlan(++version, strategy));
    ASSERT_TRUE(daemon->Serve([&] {
      for (int rank = 0; rank < kRanks; ++rank) {
        if (daemon->status(rank).plan().active_version() != version) return false;
      }
      return true;
    })) << version;
  }
  for (int rank = 0; rank < kRanks; ++rank) daemon->Stop(rank);
  ASSERT_TRUE(daemon->Serve());
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
  }
}

}  // namespace
}  // namespace paceline
