// Slipstream on a GPU: its passes, the streams of its two threads, and ranks that train over NCCL
// (nccl_ranks.h).
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/gpu/gpu_test.h"
#include "tests/gpu/nccl_ranks.h"
#include "worker/trainer/slipstream/pass_order.h"
#include "worker/trainer/slipstream/testing/test_rank.h"

namespace paceline {
namespace {

using Copy = ComputeOrder::Copy;
using Names = SlipstreamRank::Buffers;
using Side = PassOrder::Side;

class Values : public Model {
 public:
  Values(c10::Device device, int64_t tensors, int64_t size) : Model(device) {
    for (int64_t i = 0; i < tensors; ++i) {
      AddParameter(absl::StrCat("p", i), at::zeros({size}).uniform_(-1, 1));
    }
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }

  void Set(const std::vector<at::Tensor>& values) {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < values.size(); ++i) {
      at::Tensor(parameters()[i].tensor).copy_(values[i]);
    }
  }
};

class SlipstreamGpuTest : public GpuTest {
 protected:
  // Milliseconds of the pass, without its start-up.
  template <typename F>
  static double Millis(F pass) {
    c10::cuda::CUDAEvent before(cudaEventDefault);
    c10::cuda::CUDAEvent after(cudaEventDefault);
    pass();
    before.record();
    for (int i = 0; i < 20; ++i) pass();
    after.record();
    after.synchronize();
    return before.elapsed_time(after) / 20;
  }
};

// Bit for bit like on a CPU, except the division of the sum.
TEST_F(SlipstreamGpuTest, PassesAreThoseOfACpu) {
  Values there(device_, 40, 10'000);
  Values here(c10::kCPU, 40, 10'000);
  const auto values = [&] {
    std::vector<at::Tensor> random;
    for (const NamedTensor& one : here.parameters()) random.push_back(at::randn_like(one.tensor));
    return random;
  };
  const std::vector<at::Tensor> first = values();
  there.Set(first);
  here.Set(first);
  SlipstreamBuffers on_gpu(there);
  SlipstreamBuffers on_cpu(here);
  const auto wait = [] { Synchronize(); };
  const auto copy = [&](Copy what, const Names& names) {
    on_gpu.Copy(what, names);
    on_cpu.Copy(what, names);
  };
  const auto expect_same = [&](const char* what) {
    for (size_t i = 0; i < first.size(); ++i) {
      ASSERT_TRUE(at::equal(on_gpu.x()[i].cpu(), on_cpu.x()[i])) << what << " " << i;
    }
    ASSERT_TRUE(at::equal(on_gpu.z().cpu(), on_cpu.z())) << what;
  };
  Names names;
  copy(Copy::kPublish, {1, 0, 2});  // Each has values.
  copy(Copy::kReset, names);
  for (int round = 0; round < 4; ++round) {
    for (const Copy what : {Copy::kPublish, Copy::kRebase, Copy::kRebaseInFlight}) {
      const std::vector<at::Tensor> step = values();
      there.Set(step);
      here.Set(step);
      copy(what, names);
      expect_same("copy");
      std::swap(names.pub, names.sent);
      const double squared = on_cpu.FillUpdate(names, [] {});
      EXPECT_NEAR(on_gpu.FillUpdate(names, wait), squared, 1e-5 * squared);
      ASSERT_TRUE(at::equal(on_gpu.wire().cpu(), on_cpu.wire()));
      on_gpu.ApplyUpdates(4);  // A power of two: exact.
      on_cpu.ApplyUpdates(4);
      expect_same("apply");
    }
    std::swap(names.ref, names.sent);
  }
}

TEST_F(SlipstreamGpuTest, ABoundaryTakesLittle) {
  Values model(device_, 160, 70'000);  // 45 MB, as ResNet-18 has.
  SlipstreamBuffers buffers(model);
  const Names names;
  buffers.Copy(Copy::kReset, names);
  const double rebase = Millis([&] { buffers.Copy(Copy::kRebaseInFlight, names); });
  const double publish = Millis([&] { buffers.Copy(Copy::kPublish, names); });
  const double apply = Millis([&] { buffers.ApplyUpdates(4); });
  std::printf("45 MB: rebase in flight %.3f ms, publish %.3f ms, apply %.3f ms\n", rebase, publish,
              apply);
  EXPECT_LT(std::max({rebase, publish, apply}), 2.0);
}

// The training's stream waits for conflicting passes, and not for other work of the other stream.
TEST_F(SlipstreamGpuTest, TheTrainingDoesNotWaitForTheOtherStream) {
  const auto streams = platform_.MakeDeviceStreams();
  Values model(device_, 4, 1000);
  SlipstreamBuffers buffers(model);
  PassOrder order(streams.get());
  const Names names;
  const Names in_flight = {1, 0, 2};
  order.Run(Side::kCompute, UseOf(Copy::kReset, names), [&] { buffers.Copy(Copy::kReset, names); });
  c10::cuda::CUDAEvent long_work;
  std::thread comm([&] {
    const c10::cuda::CUDAGuard guard(device_.index());
    const auto aside = streams->GoAside();
    using Fill = CommOrder::Fill;
    order.Run(Side::kComm, UseOf(Fill::kUpdate, in_flight),
              [&] { buffers.FillUpdate(in_flight, [&] { order.WaitForStream(Side::kComm); }); });
    at::cuda::sleep(4'000'000'000);  // Two seconds and more: a collective.
    long_work.record();
    order.WaitForStream(Side::kComm);
  });
  absl::SleepFor(absl::Milliseconds(200));
  for (int i = 0; i < 3; ++i) {
    order.WaitForLatestStep();
    order.Run(Side::kCompute, UseOf(Copy::kRebaseInFlight, in_flight),
              [&] { buffers.Copy(Copy::kRebaseInFlight, in_flight); });
    order.TakeBack();
    order.HandOver();
  }
  order.WaitForStream(Side::kCompute);
  EXPECT_FALSE(long_work.query()) << "the steps waited for it";
  comm.join();
}

// A rank.

// `what` is a mode, or says that rank 1 is killed in `free`.
void Train(const NcclRank& own, const std::string& what) {
  const bool has_victim = what == "killed";
  TrainerConfig job = SmallJob(own.config.member.world_size, has_victim ? 1'000'000 : 120);
  job.cuda = true;
  job.member = own.config.member;
  job.interface = own.config.interface;
  const SlipstreamMode mode = what == "sync"    ? SlipstreamMode::kSync
                              : what == "drop"  ? SlipstreamMode::kDrop
                              : what == "pause" ? SlipstreamMode::kPause
                                                : SlipstreamMode::kFree;
  const auto streams = own.platform.MakeDeviceStreams();
  const auto state = std::make_shared<SmallState>(job, own.device);
  try {
    SmallRank rank(job, own.groups, SmallPlan(1, mode), state, streams.get());
    const double before = rank.Evaluate();
    SmallRank::Hooks hooks;
    hooks.before_step = [&] {
      if (has_victim && own.config.rank() == 1 && rank.steps == 200) ::raise(SIGKILL);
    };
    Expect(rank.Train(hooks).ok(), "the training");
    Expect(rank.Evaluate() < before, "a loss that falls");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "told: %s\n", error.what());
    Expect(has_victim, "no error");
  }
  std::fprintf(stderr, "state: round=%ld hash=%lx\n", state->memory.rank->state().round,
               state->memory.buffers->Hash());
}

class SlipstreamNcclTest : public NcclRanksTest {
 protected:
  // Text about a rank's state at its end.
  static std::string State(const Rank& rank) {
    std::istringstream log(Log(rank));
    for (std::string line; std::getline(log, line);) {
      if (absl::StartsWith(line, "state: ")) return line;
    }
    ADD_FAILURE() << "it tells no state: " << Log(rank);
    return "";
  }
};

class SlipstreamModesTest : public SlipstreamNcclTest,
                            public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(All, SlipstreamModesTest,
                         testing::Values("sync", "drop", "free", "pause"));

TEST_P(SlipstreamModesTest, RanksTrainAndEndWithTheSameModel) {
  RunRanks(3, GetParam());
  if (IsSkipped()) return;
  for (const Rank& rank : ranks_) {
    EXPECT_EQ(rank.status, 0) << Log(rank);
    EXPECT_EQ(State(rank), State(ranks_[0]));
  }
}

TEST_F(SlipstreamNcclTest, SurvivorsOfAKilledRankHaveTheModelsOfTheirRounds) {
  RunRanks(3, "killed");
  if (IsSkipped()) return;
  int64_t rounds[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    const Rank& rank = ranks_[2 * i];
    EXPECT_EQ(rank.status, 0) << Log(rank);
    ASSERT_EQ(std::sscanf(State(rank).c_str(), "state: round=%ld", &rounds[i]), 1);
  }
  EXPECT_LE(std::abs(rounds[0] - rounds[1]), 1);
  if (rounds[0] == rounds[1]) {
    EXPECT_EQ(State(ranks_[0]), State(ranks_[2]));
  }
  EXPECT_TRUE(WIFSIGNALED(ranks_[1].status));
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::RunTestsOrRank(argc, argv, paceline::Train); }
