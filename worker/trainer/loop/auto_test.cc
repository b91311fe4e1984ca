// Real trainer processes of a job that changes between ddp and Slipstream during training.
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/job_spec.pb.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

constexpr char kAuto[] = "strategy { auto {} } ";

v1::Strategy Ddp() {
  v1::Strategy strategy;
  strategy.mutable_ddp();
  return strategy;
}

v1::Strategy Slipstream(v1::SlipstreamMode mode) {
  v1::Strategy strategy;
  strategy.mutable_slipstream()->set_mode(mode);
  v1::SlipstreamWindow* window = strategy.mutable_slipstream()->mutable_window();
  window->set_min_steps(1);
  window->set_max_steps(2);
  window->set_max_cap(8);
  return strategy;
}

class AutoTest : public RecoveryTest {
 protected:
  v1::JobSpec AutoSpec(int ranks, const std::string& changes, int spares = 0) const {
    return EvenSpec(
        ranks, "out",
        absl::StrCat(kAuto, "log_every: 20 data { eval: '", directory_, "/eval.shard' } ", changes),
        spares);
  }

  static void Change(FakeDaemon& daemon, const std::vector<int>& trainers,
                     const v1::Strategy& strategy, bool planned = true) {
    FakeDaemon::Members members;
    members.trainers = trainers;
    members.planned = planned;
    members.strategy = strategy;
    daemon.SetMembers(members);
  }

  // Changes the strategy; all continue from where they are.
  static void ChangeTo(FakeDaemon& daemon, const std::vector<int>& trainers,
                       const v1::Strategy& strategy) {
    const int64_t before = daemon.status(trainers[0]).membership().step();
    Change(daemon, trainers, strategy);
    WaitUntilRendezvous(daemon);
    for (const int trainer : trainers) {
      ASSERT_FALSE(daemon.ended(trainer)) << daemon.Log(trainer);
      EXPECT_EQ(daemon.status(trainer).membership().error(), "");
      EXPECT_GT(daemon.status(trainer).membership().step(), before);
      EXPECT_EQ(daemon.status(trainer).membership().step(),
                daemon.status(trainers[0]).membership().step());
    }
    const absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(trainers[0]));
    ASSERT_TRUE(ring.ok()) << ring.status();
    WaitForSteps(daemon, trainers[0], ring->Written() + 20);
    ASSERT_TRUE(daemon.Serve([&] {
      return daemon.status(trainers[0]).figures().has_slipstream() == strategy.has_slipstream();
    }));
  }

  std::string Exported(size_t rank) const {
    std::ostringstream bytes;
    std::ifstream file(absl::StrCat(directory_, "/out/final.rank", rank, ".safetensors"),
                       std::ios::binary);
    EXPECT_TRUE(file.good()) << rank;
    bytes << file.rdbuf();
    return bytes.str();
  }

  // Expects these trainers, by rank, to succeed with one common model that has learnt.
  void ExpectGoodEnd(FakeDaemon& daemon, const std::vector<int>& trainers) const {
    WaitForSuccess(daemon, trainers);
    for (size_t rank = 1; rank < trainers.size(); ++rank) {
      EXPECT_TRUE(Exported(rank) == Exported(0)) << "rank " << rank;
    }
    for (const int trainer : trainers) {
      EXPECT_GT(daemon.status(trainer).evaluation().accuracy(), 0.9);
    }
  }
};

TEST_F(AutoTest, TheSameProcessesGoOnByEachStrategy) {
  const std::vector<int> all = {0, 1, 2};
  const auto daemon = MakeDaemon();
  daemon->Launch(AutoSpec(3, "steps: 1000000 "));
  WaitForSteps(*daemon, 0, 60);
  EXPECT_FALSE(daemon->status(0).figures().has_slipstream()) << "it begins with ddp";
  ChangeTo(*daemon, all, Slipstream(v1::SLIPSTREAM_FREE));
  ChangeTo(*daemon, all, Ddp());
  ChangeTo(*daemon, all, Slipstream(v1::SLIPSTREAM_DROP));
  ChangeTo(*daemon, all, Ddp());
  ChangeTo(*daemon, all, Slipstream(v1::SLIPSTREAM_PAUSE));
  for (const int trainer : all) daemon->Stop(trainer);
  WaitForSuccess(*daemon, all);
}

// Model, optimizer and data continue exactly: synchronous steps are the same by either strategy.
TEST_F(AutoTest, SynchronousStepsAreTheSameWithSlipstream) {
  const std::string changes = absl::StrCat(
      kAuto, "steps: 1000 log_every: 1 optimizer { sgd { momentum: 0.9 } learning_rate: 0.02 } ");
  const auto undisturbed = RunUndisturbed(2, changes);
  const auto daemon = MakeDaemon();
  daemon->Launch(EvenSpec(2, "out", changes));
  WaitForSteps(*daemon, 0, 60);
  ChangeTo(*daemon, {0, 1}, Slipstream(v1::SLIPSTREAM_SYNC));
  ChangeTo(*daemon, {0, 1}, Ddp());
  ChangeTo(*daemon, {0, 1}, Slipstream(v1::SLIPSTREAM_SYNC));
  WaitForSuccess(*daemon, {0, 1});
  const std::map<int64_t, std::string> expected = Losses(*undisturbed, 0);
  const std::map<int64_t, std::string> losses = Losses(*daemon, 0);
  ASSERT_EQ(expected.size(), 1000U);
  EXPECT_GE(losses.size(), 900U);
  for (const auto& [step, text] : losses) {
    double loss = 0, wanted = 0;
    ASSERT_TRUE(absl::SimpleAtod(text, &loss) && absl::SimpleAtod(expected.at(step), &wanted));
    EXPECT_NEAR(loss, wanted, 0.01 * wanted + 1e-3) << "step " << step;
  }
}

TEST_F(AutoTest, ARankIsLostWhileTheStrategyChanges) {
  for (const bool to_slipstream : {true, false}) {
    const auto daemon = MakeDaemon();
    daemon->Launch(AutoSpec(3, "steps: 800 ", /*spares=*/1));
    WaitUntilReady(*daemon, 3);
    WaitForSteps(*daemon, 0, 60);
    if (!to_slipstream) ChangeTo(*daemon, {0, 1, 2}, Slipstream(v1::SLIPSTREAM_FREE));
    // Only some may have left; whoever is further ahead, all continue by the former strategy.
    Change(*daemon, {0, 1, 2}, to_slipstream ? Slipstream(v1::SLIPSTREAM_FREE) : Ddp());
    daemon->Signal(1, SIGKILL);
    WaitForEnd(*daemon, 1);
    Change(*daemon, {0, 3, 2}, to_slipstream ? Ddp() : Slipstream(v1::SLIPSTREAM_FREE),
           /*planned=*/false);
    WaitUntilRendezvous(*daemon);
    EXPECT_GT(daemon->status(3).membership().step(), 0) << "nothing starts over";
    ExpectGoodEnd(*daemon, {0, 3, 2});
  }
}

// An impossible strategy was ordered. It ends no rank: all report why and continue by the former
// strategy.
TEST_F(AutoTest, AStrategyThatTheModelCannotTrainByIsRefused) {
  torch::jit::Module module("Half");
  module.register_parameter("weight", at::zeros({64, 10}, at::kBFloat16).requires_grad_(true),
                            false);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(
      "def forward(self, inputs, targets):\n"
      "    y = inputs.flatten(1).matmul(self.weight.to(inputs.dtype))\n"
      "    return torch.cross_entropy_loss(y, targets)\n");
  const std::string file = directory_ + "/half.pt";
  module.save(file);
  v1::JobSpec spec = EvenSpec(
      2, "out", absl::StrCat(kAuto, "steps: 800 model { torchscript { file: '", file, "' } }"));
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  WaitForSteps(*daemon, 0, 60);
  const int64_t before = daemon->status(0).membership().step();
  Change(*daemon, {0, 1}, Slipstream(v1::SLIPSTREAM_FREE));
  for (const int trainer : {0, 1}) {
    ASSERT_TRUE(daemon->Serve([&] {
      return daemon->ended(trainer) || !daemon->status(trainer).membership().error().empty();
    }));
    ASSERT_FALSE(daemon->ended(trainer)) << daemon->Log(trainer);
    EXPECT_THAT(daemon->status(trainer).membership().error(), testing::HasSubstr("weight is not"));
  }
  Change(*daemon, {0, 1}, Ddp(), /*planned=*/false);
  WaitUntilRendezvous(*daemon);
  EXPECT_GT(daemon->status(0).membership().step(), before) << "nothing is lost";
  WaitForSuccess(*daemon, {0, 1});
  EXPECT_TRUE(Exported(0) == Exported(1));
}

// As if the controller did not know that the change had failed.
TEST_F(AutoTest, ALossAndAChangeAtOnce) {
  const auto daemon = MakeDaemon();
  daemon->Launch(AutoSpec(3, "steps: 800 ", /*spares=*/2));
  WaitUntilReady(*daemon, 3);
  WaitUntilReady(*daemon, 4);
  WaitForSteps(*daemon, 0, 60);
  daemon->Signal(1, SIGKILL);
  WaitForEnd(*daemon, 1);
  Change(*daemon, {0, 3, 2}, Slipstream(v1::SLIPSTREAM_FREE), /*planned=*/false);
  WaitUntilRendezvous(*daemon);
  const int64_t before = daemon->status(3).membership().step();
  EXPECT_GT(before, 0);
  daemon->Signal(0, SIGKILL);
  WaitForEnd(*daemon, 0);
  Change(*daemon, {4, 3, 2}, Ddp(), /*planned=*/false);
  WaitUntilRendezvous(*daemon);
  EXPECT_GE(daemon->status(4).membership().step(), before);
  ExpectGoodEnd(*daemon, {4, 3, 2});
}

}  // namespace
}  // namespace paceline
