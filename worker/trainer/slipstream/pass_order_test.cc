#include "worker/trainer/slipstream/pass_order.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "worker/trainer/model/model.h"
#include "worker/trainer/slipstream/buffers.h"
#include "worker/trainer/slipstream/testing/stream_races.h"

namespace paceline {
namespace {

using Side = PassOrder::Side;
using testing::IsEmpty;
using testing::Not;

// Memory for each part, and passes over it by one thread that switches between both streams.
struct Device {
  Device() {
    for (at::Tensor& one : parts) one = at::zeros({2});
  }

  void Use(const PassUse& use) {
    for (int part = 0; part < PassUse::kParts; ++part) {
      const at::Tensor& one = parts[static_cast<size_t>(part)];
      if (((use.reads >> part) & 1U) != 0) at::sum(one);
      if (((use.writes >> part) & 1U) != 0) one.add_(1);
    }
  }
  template <typename F>
  void In(Side side, F work) {
    const auto aside = side == Side::kComm ? races.GoAside() : nullptr;
    work();
  }
  void Run(PassOrder& order, Side side, const PassUse& use) {
    In(side, [&] { order.Run(side, use, [&] { Use(use); }); });
  }

  StreamRaces races;
  const StreamRaces::Entered entered{races};
  std::array<at::Tensor, PassUse::kParts> parts;
};

TEST(PassOrderTest, WhatNothingOrdersIsARace) {
  for (const bool writes : {true, false}) {
    Device device;
    const PassUse first = {0, PassUse::kZ};
    const PassUse second = writes ? PassUse{0, PassUse::kZ} : PassUse{PassUse::kZ, 0};
    device.In(Side::kComm, [&] { device.Use(first); });
    device.Use(second);
    EXPECT_THAT(device.races.races(), Not(IsEmpty()));
  }
}

TEST(PassOrderTest, PassesThatConflictAreInOrderWhateverTheyAre) {
  std::mt19937 random(17);
  for (int run = 0; run < 100; ++run) {
    Device device;
    device.Use({0, PassUse::kAll});
    PassOrder order(&device.races);
    for (int pass = 0; pass < 50; ++pass) {
      const Side side = random() % 2 == 0 ? Side::kCompute : Side::kComm;
      const unsigned parts = PassUse::kAll;
      device.Run(order, side,
                 {static_cast<unsigned>(random() & random()) & parts,
                  static_cast<unsigned>(random() & random() & random()) & parts});
    }
    ASSERT_THAT(device.races.races(), IsEmpty()) << "run " << run;
    EXPECT_GT(device.races.in_order(), 0);
  }
}

TEST(PassOrderTest, AStepComesAfterWhatItUsesAndBeforeWhatUsesIt) {
  Device device;
  PassOrder order(&device.races);
  for (int step = 0; step < 5; ++step) {
    device.Run(order, Side::kComm, {PassUse::kGradients, PassUse::kOptimizer});
    order.TakeBack();
    order.WaitForLatestStep();
    device.Use(kStepUse);
    order.HandOver();
    device.Run(order, Side::kComm, {PassUse::kGradients | PassUse::kModel, 0});
  }
  EXPECT_THAT(device.races.races(), IsEmpty());
}

// Both streams may read the same memory at the same time.
TEST(PassOrderTest, AStreamWaitsForConflictsOnly) {
  Device device;
  PassOrder order(&device.races);
  device.Run(order, Side::kComm, {PassUse::kZ, PassUse::kOptimizer});
  device.Run(order, Side::kCompute, {PassUse::kZ, PassUse::kBuffer});
  device.Use({PassUse::kOptimizer, 0});
  EXPECT_THAT(device.races.races(), Not(IsEmpty())) << "it has not waited for that pass";
}

class Values : public Model {
 public:
  Values() : Model(at::kCPU) {
    AddParameter("some", at::zeros({3}));
    AddBuffer("mean", at::zeros({2}));
    parameters()[0].tensor.mutable_grad() = at::zeros({3});
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

// Each pass of one side after each of the other, whatever the buffers' names.
TEST(PassOrderTest, PassesUseWhatTheySay) {
  using Copy = ComputeOrder::Copy;
  using Fill = CommOrder::Fill;
  Values model;
  StreamRaces races;
  const StreamRaces::Entered entered(races);
  SlipstreamBuffers buffers(model, /*loops=*/false);
  buffers.TakeGradients();
  PassOrder order(&races);
  CommOrder::Payload payload;
  payload.model = 1;
  const auto copy = [&](Copy what, const SlipstreamRank::Buffers& names) {
    order.Run(Side::kCompute, UseOf(what, names), [&] { buffers.Copy(what, names); });
  };
  const auto communicate = [&](int what, const SlipstreamRank::Buffers& names) {
    const auto aside = races.GoAside();
    const auto run = [&](const PassUse& use, auto pass) { order.Run(Side::kComm, use, pass); };
    if (what == 0) run(UseOf(Fill::kUpdate, names), [&] { buffers.FillUpdate(names, [] {}); });
    if (what == 1) run(UseOf(Fill::kGradient, names), [&] { buffers.FillGradient(); });
    if (what == 2) run(UseOf(Fill::kZeros, names), [&] { buffers.FillZeros(); });
    if (what == 3) run(UseOf(payload, /*local=*/true), [&] { buffers.ApplyUpdates(1); });
    if (what == 4)
      run(UseOf(payload, /*local=*/false), [&] { buffers.ApplyGradients(1, /*max_norm=*/1); });
  };
  constexpr SlipstreamRank::Buffers kNames[] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const Copy first :
       {Copy::kPublish, Copy::kRebase, Copy::kRebaseInFlight, Copy::kReset, Copy::kLoad}) {
    for (int second = 0; second < 5; ++second) {
      for (const SlipstreamRank::Buffers& names : kNames) {
        for (const SlipstreamRank::Buffers& others : kNames) {
          copy(first, names);
          communicate(second, others);
          copy(first, names);
        }
      }
    }
  }
  EXPECT_THAT(races.races(), IsEmpty());
  EXPECT_GT(races.in_order(), 0);
}

// Counts the waits of threads.
class WaitedFor : public DeviceStreams {
 public:
  std::unique_ptr<Aside> GoAside() override { return nullptr; }
  void Record(Event event) override { recorded_[static_cast<size_t>(event)] = ++time_; }
  void StartAfter(Event /*event*/) override {}
  void Wait(Event event) override { until = recorded_[static_cast<size_t>(event)]; }
  int now() const { return time_; }

  int until = 0;

 private:
  std::array<int, kEvents> recorded_{};
  int time_ = 0;
};

TEST(PassOrderTest, OneStepIsQueuedAtMost) {
  WaitedFor streams;
  PassOrder order(&streams);
  std::vector<int> handed_over;
  for (size_t step = 0; step < 6; ++step) {
    order.WaitForLatestStep();
    EXPECT_EQ(streams.until, step < 2 ? 0 : handed_over[step - 2]) << "the one before the latest";
    order.HandOver();
    handed_over.push_back(streams.now());
  }
}

TEST(PassOrderTest, ACpuNeedsNone) {
  PassOrder order(nullptr);
  EXPECT_FALSE(order.on_device());
  bool ran = false;
  order.TakeBack();
  order.WaitForLatestStep();
  order.Run(Side::kCompute, {0, PassUse::kAll}, [&] { ran = true; });
  order.HandOver();
  order.WaitForStream(Side::kComm);
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace paceline
