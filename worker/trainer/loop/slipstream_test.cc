// Jobs with Slipstream in real trainer processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/safetensors/safetensors.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/saving_test.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Steps are very short: a round with longer windows would span a whole training.
#define PACELINE_TEST_SLIPSTREAM(mode) \
  "strategy { slipstream { mode: " mode " window { min_steps: 1 max_steps: 2 max_cap: 8 } } } "
constexpr char kFree[] = PACELINE_TEST_SLIPSTREAM("SLIPSTREAM_FREE");
constexpr char kDrop[] = PACELINE_TEST_SLIPSTREAM("SLIPSTREAM_DROP");
constexpr char kSync[] = PACELINE_TEST_SLIPSTREAM("SLIPSTREAM_SYNC");
constexpr char kPause[] = PACELINE_TEST_SLIPSTREAM("SLIPSTREAM_PAUSE");
constexpr char kAdamW[] = "optimizer { adamw {} learning_rate: 0.01 } ";

class SlipstreamTest : public SavingTest {
 protected:
  static std::vector<StepRecord> Records(const FakeDaemon& daemon, int rank) {
    absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(rank));
    EXPECT_TRUE(ring.ok()) << ring.status();
    const StepRingReader::Batch batch = ring->ReadFrom(0);
    EXPECT_EQ(batch.lost, 0u);
    return batch.records;
  }

  // Whether the checkpoint has a tensor whose name begins like this.
  static bool Holds(const std::string& checkpoint, const std::string& name) {
    const auto files = CheckpointFiles::Open(checkpoint);
    EXPECT_TRUE(files.ok()) << files.status();
    const auto& tensors = files->manifest().tensors;
    return std::any_of(tensors.begin(), tensors.end(), [&](const ManifestTensor& tensor) {
      return tensor.name.rfind(name, 0) == 0;
    });
  }

  // Every rank must have the same model, which has learnt; together they have done the job's steps.
  void TrainAndCheck(const std::string& changes) {
    constexpr int kRanks = 4;
    const auto daemon = RunJob(
        Spec(kRanks, absl::StrCat("steps: 150 ", changes, Evaluated(50), ExportTo("final"))));
    ExpectEqualModels("final", kRanks);
    EXPECT_GT(daemon->status(1).evaluation().accuracy(), 0.9);
    EXPECT_EQ(daemon->status(1).evaluation().step(), 150);
    EXPECT_EQ(Values(*daemon, 0, "accuracy"), Values(*daemon, kRanks - 1, "accuracy"));
    EXPECT_GE(Values(*daemon, 0, "accuracy").size(), 2u);
    size_t steps = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<StepRecord> records = Records(*daemon, rank);
      ASSERT_FALSE(records.empty());
      steps += records.size();
      for (size_t i = 1; i < records.size(); ++i) EXPECT_GE(records[i].step, records[i - 1].step);
      EXPECT_LT(records.back().step, 150u);
      EXPECT_EQ(daemon->status(rank).figures().slipstream().steps(),
                static_cast<int64_t>(records.size()));
      EXPECT_THAT(daemon->Log(rank), HasSubstr("mean_loss="));
    }
    EXPECT_GE(steps, 150u * kRanks);
  }
};

TEST_F(SlipstreamTest, FreeTrainsAllRanksToOneModel) { TrainAndCheck(kFree); }

TEST_F(SlipstreamTest, FreeTrainsWithAdamW) { TrainAndCheck(absl::StrCat(kFree, kAdamW)); }

TEST_F(SlipstreamTest, DropTrainsAllRanksToOneModel) {
  TrainAndCheck(absl::StrCat(kDrop, kAdamW, "accumulation_steps: 2 clip_grad_norm: 1 "));
}

TEST_F(SlipstreamTest, PauseTrainsAllRanksToOneModel) {
  TrainAndCheck(absl::StrCat(kPause, "precision: BF16 "));
}

TEST_F(SlipstreamTest, FreeTrainsWithUpdatesAsInt8) {
  TrainAndCheck(absl::StrCat(kFree, "gradient_format: WIRE_FORMAT_INT8 "));
}

TEST_F(SlipstreamTest, PauseTrainsWithUpdatesAsInt8) {
  TrainAndCheck(absl::StrCat(kPause, "gradient_format: WIRE_FORMAT_INT8 "));
}

TEST_F(SlipstreamTest, AStalledRankHoldsUpNobody) {
  // Rank 1 stalls at each step until the others have done more than their share.
  const std::string over = directory_ + "/over";
  const auto daemon = MakeDaemon();
  daemon->Launch(
      Spec(4, absl::StrCat(kFree,
                           "steps: 300 log_every: 100 batch_per_rank: 32 model { mlp { "
                           "hidden: 512 hidden: 512 } } optimizer { learning_rate: 0.01 } "
                           "allow_chaos: true chaos { rank: 1 step: 5 steps: 300 kind: SLEEP "
                           "seconds: 3 until_file: '",
                           over, "' } ", ExportTo("final"))));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).state() == v1::TRAINER_RUNNING; }));
  const auto by_others = [&] {
    uint64_t steps = 0;
    for (const int rank : {0, 2, 3}) {
      steps += StepRingReader::Open(daemon->RingPath(rank))->Written();
    }
    return steps;
  };
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  while (by_others() <= 950 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
  ASSERT_GT(by_others(), 950U) << "of 4 times 300";
  EXPECT_TRUE(std::ofstream(over).good());
  ASSERT_TRUE(daemon->Serve());
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
  ExpectEqualModels("final", 4);
  EXPECT_LT(Records(*daemon, 1).size(), 300u) << "the others have done its part, too";
  for (const int rank : {0, 2, 3}) {
    std::vector<StepRecord> records = Records(*daemon, rank);
    ASSERT_FALSE(records.empty());
    records.pop_back();  // The last one: all wait at the end.
    for (const StepRecord& record : records) {
      EXPECT_LT(record.phase_ns[static_cast<size_t>(Phase::kRoundWait)], 2'000'000'000u)
          << "nearly as long as the stall";
    }
  }
}

// Rank 1 is four times as slow as the others.
TEST_F(SlipstreamTest, EachRankTellsTheFiguresOfTheJob) {
  const auto daemon = RunJob(
      Spec(3, absl::StrCat(kFree,
                           "steps: 100 log_every: 1000 schedule { cosine {} } allow_chaos: true "
                           "chaos { rank: -1 kind: SLEEP seconds: 0.01 steps: 10000 } "
                           "chaos { rank: 1 kind: SLEEP seconds: 0.03 steps: 10000 } ")));
  const double speed = Values(*daemon, 0, "samples_per_s").back();
  EXPECT_NEAR(Values(*daemon, 1, "samples_per_s").back() / speed, 1, 0.3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Values(*daemon, rank, "step").back(), 100);
    const std::vector<StepRecord> records = Records(*daemon, rank);
    EXPECT_FLOAT_EQ(Values(*daemon, rank, "lr").back(), records.back().learning_rate);
    uint64_t bytes = 0;
    for (const StepRecord& record : records) bytes += record.wire_bytes;
    EXPECT_GT(bytes, 0u);
  }
}

TEST_F(SlipstreamTest, CheckpointsAreMadeAtStopsAndVerify) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(3, absl::StrCat(kFree, "steps: 1000000 log_every: 1000 ",
                                      SaveTo("out", "every_steps: 40 when_busy: WHEN_BUSY_WAIT"))));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).checkpoints().commits() >= 2; }))
      << daemon->Log(0);
  v1::SaveOrder order;
  order.set_number(1);
  daemon->SetSaveOrder(order);
  ASSERT_TRUE(daemon->Serve([&] {
    const auto& saves = daemon->status(0).saves();
    return std::any_of(saves.begin(), saves.end(), [](const v1::SaveStatus& save) {
      return save.order() == 1 && save.state() == v1::SAVE_COMMITTED;
    });
  })) << daemon->Log(0);
  for (int rank = 0; rank < 3; ++rank) daemon->Stop(rank);
  ASSERT_TRUE(daemon->Serve());
  const auto found = SettleCheckpoints(JobDirectory("out"), 0);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_GE(found->size(), 3u);
  for (const CompleteCheckpoint& one : *found) {
    const auto damages = VerifyCheckpoint(Checkpoint("out", one.step), [](int64_t, int64_t) {});
    ASSERT_TRUE(damages.ok()) << damages.status();
    EXPECT_THAT(*damages, ElementsAre());
  }
  const auto files = CheckpointFiles::Open(Checkpoint("out", found->front().step));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->manifest().ladder, "free");
  EXPECT_TRUE(Holds(Checkpoint("out", found->front().step), "rank1/optimizer"));
  EXPECT_GE(files->manifest().step, 40);
}

// Where nothing depends on the ranks' speed, to the last digit.
TEST_F(SlipstreamTest, GoesOnExactly) {
  const v1::JobSpec spec =
      Spec(3, absl::StrCat(kSync, kAdamW, "schedule { cosine {} } accumulation_steps: 2 ",
                           SaveTo("whole", "every_steps: 1 when_busy: WHEN_BUSY_WAIT")));
  const auto whole = RunJob(spec);
  EXPECT_FALSE(Holds(Checkpoint("whole", 1), "rank1/optimizer")) << "all ranks have one";
  EXPECT_TRUE(Holds(Checkpoint("whole", 1), "rank1/slipstream/progress"));
  v1::JobSpec again = spec;
  again.mutable_checkpoint()->set_directory(directory_ + "/again");
  for (const int64_t step : {1, 13}) {
    const auto resumed = Resume(again, Checkpoint("whole", step));
    for (int rank = 0; rank < 3; ++rank) {
      for (const char* key : {"loss", "mean_loss", "grad_norm", "lr"}) {
        std::vector<double> expected = Values(*whole, rank, key);
        ASSERT_THAT(expected, SizeIs(20));
        expected.erase(expected.begin(), expected.begin() + step);
        EXPECT_EQ(Values(*resumed, rank, key), expected) << key << " of rank " << rank;
      }
    }
    std::filesystem::remove_all(directory_ + "/again");
  }
}

// With weights that never change, a sample's loss identifies it.
TEST_F(SlipstreamTest, EachRankGoesOnWithItsOwnData) {
  const std::string still = absl::StrCat(
      kFree, "batch_per_rank: 1 optimizer { sgd { momentum: 0 } learning_rate: 1e-30 } steps: 90 ");
  const auto whole =
      RunJob(Spec(2, absl::StrCat(still,
                                  "allow_chaos: true chaos { rank: 1 kind: SLEEP seconds: 0.02 "
                                  "steps: 1000 } chaos { rank: 0 kind: SLEEP seconds: 0.005 "
                                  "steps: 1000 } ",
                                  SaveTo("out", "every_steps: 60"))));
  const auto found = SettleCheckpoints(JobDirectory("out"), 1);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_FALSE(found->empty());
  const int64_t step = found->front().step;
  const auto resumed = Resume(Spec(2, still + SaveTo("again")), Checkpoint("out", step));
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<StepRecord> before = Records(*whole, rank);
    const std::vector<StepRecord> after = Records(*resumed, rank);
    constexpr size_t kCompared = 5;
    ASSERT_GE(after.size(), kCompared);
    const auto same = [](const StepRecord& a, const StepRecord& b) { return a.loss == b.loss; };
    const auto at =
        std::search(before.begin(), before.end(), after.begin(), after.begin() + kCompared, same);
    ASSERT_NE(at, before.end()) << "rank " << rank;
    if (rank == 0) {
      EXPECT_GT(at - before.begin(), step) << "it has made most of the job's steps";
    } else {
      EXPECT_LT(at - before.begin(), step);
    }
  }
}

TEST_F(SlipstreamTest, GoesOnInAnyModeAndWithAnyNumberOfRanks) {
  const std::string more = "steps: 60 " + std::string(kAdamW);
  v1::JobSpec first = Spec(4, absl::StrCat(kFree, more, SaveTo("out", "every_steps: 30")));
  const auto whole = RunJob(first);
  const auto found = SettleCheckpoints(JobDirectory("out"), 1);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_FALSE(found->empty());
  const int64_t step = found->front().step;
  const std::vector<std::pair<const char*, int>> others = {
      {kFree, 4}, {kFree, 2}, {kDrop, 4}, {kDrop, 6}};
  for (const auto& [mode, ranks] : others) {
    const auto resumed =
        Resume(Spec(ranks, absl::StrCat(mode, more, SaveTo("again"), ExportTo("again"))),
               Checkpoint("out", step));
    ExpectEqualModels("again", ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_THAT(Values(*resumed, rank, "step"), Each(Ge(step)));
      const std::vector<double> losses = Values(*resumed, rank, "mean_loss");
      ASSERT_FALSE(losses.empty());
      EXPECT_LT(losses.back(), Values(*whole, 0, "loss").front());
    }
  }
  // Also with another strategy.
  const auto ddp = Resume(Spec(2, more + SaveTo("ddp")), Checkpoint("out", step));
  EXPECT_THAT(Values(*ddp, 0, "loss"), SizeIs(60 - step));
}

TEST_F(SlipstreamTest, TheEndIsSavedAndNothingIsLeftToDoAfterIt) {
  v1::JobSpec spec = Spec(2, absl::StrCat(kFree, SaveTo("out")));
  spec.mutable_checkpoint()->set_at_end(true);
  RunJob(spec);
  Resume(spec, Checkpoint("out", 20));
  spec.set_steps(40);
  const auto resumed = Resume(spec, Checkpoint("out", 20), 3);
  EXPECT_THAT(Values(*resumed, 1, "step"), Each(Ge(20)));
}

TEST_F(SlipstreamTest, ALossThatIsNoNumberNamesItsRank) {
  for (const char* mode : {kFree, kDrop, kPause, kSync}) {
    const auto daemon = MakeDaemon();
    // It ends the whole job, also one that continues without lost ranks.
    daemon->Launch(Spec(3, absl::StrCat(mode,
                                        "steps: 1000000 log_every: 1000 allow_chaos: true "
                                        "chaos { rank: 1 step: 7 kind: NAN_LOSS } "
                                        "recovery { max_failures: 10 } ")));
    ASSERT_TRUE(daemon->Serve()) << mode;
    EXPECT_EQ(daemon->exit_code(1), 1);
    const v1::TrainerError error = daemon->LastWords(1).error();
    EXPECT_EQ(error.kind(), v1::FAILURE_ERROR);
    EXPECT_THAT(error.message(), HasSubstr("of rank 1: the loss is nan"));
    EXPECT_THAT(error.message(), HasSubstr("layers.0.weight"));
    for (const int rank : {0, 2}) {
      EXPECT_EQ(daemon->LastWords(rank).error().kind(), v1::FAILURE_COLLECTIVE);
      EXPECT_THAT(daemon->LastWords(rank).error().message(), HasSubstr("rank 1 cannot go on"));
    }
  }
}

TEST_F(SlipstreamTest, StepsThatAreNoNumbersAreLeftOutIfTheJobSaysSo) {
  for (const char* mode : {kFree, kDrop}) {
    const auto daemon =
        RunJob(Spec(3, absl::StrCat(mode,
                                    "steps: 100 on_nonfinite: NON_FINITE_SKIP allow_chaos: true "
                                    "chaos { rank: 1 step: 7 kind: NAN_LOSS } ",
                                    Evaluated(0), ExportTo("final"))));
    ExpectEqualModels("final", 3);
    EXPECT_EQ(daemon->status(1).figures().skipped_steps(), 1);
    EXPECT_GT(daemon->status(0).evaluation().accuracy(), 0.9);
  }
}

TEST_F(SlipstreamTest, WhenModelsDifferTheirStatesAreKept) {
  for (const char* mode : {kFree, kDrop}) {
    std::filesystem::remove_all(JobDirectory("out"));
    const auto daemon = MakeDaemon();
    daemon->Launch(Spec(3, absl::StrCat(mode, SaveTo("out"),
                                        "steps: 1000000 log_every: 1000 allow_chaos: true "
                                        "chaos { rank: 1 step: 20 kind: FLIP_BIT }")));
    ASSERT_TRUE(daemon->Serve());
    EXPECT_THAT(daemon->LastWords(1).error().message(), HasSubstr("the models of ranks 1 differ"));
    std::vector<std::string> kept;
    for (const auto& entry : std::filesystem::directory_iterator(JobDirectory("out"))) {
      const std::string name = entry.path().filename();
      if (name.rfind("diverged-round-", 0) == 0) kept.push_back(entry.path());
    }
    ASSERT_THAT(kept, SizeIs(1));
    std::vector<std::string> models;
    for (int rank = 0; rank < 3; ++rank) {
      const auto file = SafetensorsFile::Open(absl::StrCat(kept[0], "/", ShardName(rank, 3)));
      ASSERT_TRUE(file.ok()) << file.status();
      models.emplace_back();
      for (const Safetensor& tensor : file->tensors()) {
        if (absl::StartsWith(tensor.name, "model/")) absl::StrAppend(&models.back(), tensor.bytes);
      }
      EXPECT_FALSE(models.back().empty());
    }
    EXPECT_TRUE(models[0] == models[2]);
    EXPECT_FALSE(models[0] == models[1]);
  }
}

TEST_F(SlipstreamTest, ModesChangeWhileItTrains) {
  const auto daemon = MakeDaemon();
  const v1::JobSpec spec = Spec(3, absl::StrCat(kFree, "steps: 1000000 log_every: 1000 "));
  daemon->Launch(spec);
  int64_t version = 1;
  for (const v1::SlipstreamMode mode :
       {v1::SLIPSTREAM_DROP, v1::SLIPSTREAM_PAUSE, v1::SLIPSTREAM_SYNC, v1::SLIPSTREAM_FREE}) {
    v1::Strategy strategy = spec.strategy();
    strategy.mutable_slipstream()->set_mode(mode);
    daemon->SetPlan(daemon->MakePlan(++version, strategy));
    ASSERT_TRUE(daemon->Serve([&] {
      for (int rank = 0; rank < 3; ++rank) {
        if (daemon->status(rank).plan().active_version() != version) return false;
      }
      return true;
    })) << daemon->Log(0);
  }
  for (int rank = 0; rank < 3; ++rank) daemon->Stop(rank);
  ASSERT_TRUE(daemon->Serve());
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
}

TEST_F(SlipstreamTest, ProfilesAreMade) {
  const auto daemon = MakeDaemon();
  daemon->Launch(Spec(2, absl::StrCat(kFree, "steps: 1000000 log_every: 100 ")));
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(1).figures().step() > 0; }));
  v1::ProfileRequest request;
  request.set_id(1);
  request.set_first_step(1);  // Long past: a rank may skip to any of the job's steps.
  request.set_steps(3);
  daemon->SetProfile({1}, request);
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(1).profile().id() == 1; }));
  EXPECT_EQ(daemon->status(1).profile().error(), "");
  EXPECT_EQ(daemon->status(1).profile().steps(), 3);
}

}  // namespace
}  // namespace paceline
