#include "worker/trainer/slipstream/buffers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

using Copy = ComputeOrder::Copy;

constexpr int64_t kMany = 200'000;  // More than two chunks.

class Parts : public Model {
 public:
  Parts() : Model(at::kCPU) {
    AddParameter("many", at::full({kMany}, 1.0F));
    // Dense, but its memory order is not its index order.
    AddParameter("turned", at::arange(6, at::kFloat).view({2, 3}).t());
    AddBuffer("mean", at::full({2}, 3.0F));
    AddBuffer("count", at::full({}, 7, at::kLong));
    AddBuffer("constant", at::full({5}, 9.0F), /*frozen=*/true);
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }

  void Add(double value) {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& one : parameters()) at::Tensor(one.tensor).add_(value);
    at::Tensor(buffers()[0].tensor).add_(value);
  }
  void SetGradients(double value) {
    for (const NamedTensor& one : parameters()) {
      one.tensor.mutable_grad() = at::full_like(one.tensor, value).detach();
    }
  }
  float many(int64_t i) const { return parameters()[0].tensor[i].item<float>(); }
  float turned(int64_t i, int64_t j) const { return parameters()[1].tensor[i][j].item<float>(); }
  float mean() const { return buffers()[0].tensor[1].item<float>(); }
};

// Runs in chunks, and as on another device.
class SlipstreamBuffersTest : public testing::TestWithParam<bool> {
 protected:
  Parts model_;
  SlipstreamBuffers buffers_{model_, GetParam()};

  double FillUpdate(const SlipstreamRank::Buffers& names) {
    return buffers_.FillUpdate(names, [] {});
  }
};

INSTANTIATE_TEST_SUITE_P(All, SlipstreamBuffersTest, testing::Bool(),
                         [](const auto& loops) { return loops.param ? "Loops" : "Operators"; });

constexpr SlipstreamRank::Buffers kNames = {0, 1, 2};
constexpr int64_t kValues = kMany + 6 + 2;
constexpr double kRounding = 1e-6;  // Of a norm in float.

TEST_P(SlipstreamBuffersTest, HoldParametersAndStatisticsButNoCountersAndConstants) {
  EXPECT_EQ(buffers_.z().numel(), kValues);
  EXPECT_EQ(buffers_.z()[0].item<float>(), 1);
  EXPECT_EQ(buffers_.z()[kValues - 1].item<float>(), 3);
  EXPECT_EQ(buffers_.z_parameters().size(), 2U);
  EXPECT_EQ(buffers_.z_parameters()[1][2][1].item<float>(), 5);
}

TEST_P(SlipstreamBuffersTest, AnUpdateTravelsAndTheOwnWorkIsRebased) {
  buffers_.Copy(Copy::kReset, kNames);
  model_.Add(2);
  buffers_.Copy(Copy::kPublish, kNames);
  const SlipstreamRank::Buffers in_flight = {1, 0, 2};
  EXPECT_NEAR(FillUpdate(in_flight), 4.0 * kValues, kRounding * 4.0 * kValues);
  model_.Add(8);             // Not sent yet.
  buffers_.ApplyUpdates(2);  // Another rank had none.
  const SlipstreamRank::Buffers finished = {1, 2, 0};
  buffers_.Copy(Copy::kRebase, finished);
  EXPECT_EQ(buffers_.z()[5].item<float>(), 2);
  EXPECT_EQ(model_.many(kMany - 1), 1 + 1 + 8);
  EXPECT_EQ(model_.turned(2, 1), 5 + 1 + 8);
  EXPECT_EQ(model_.mean(), 3 + 1 + 8);
  EXPECT_NEAR(FillUpdate({2, 1, 0}), 64.0 * kValues, kRounding * 64.0 * kValues) << "pub is x";
}

TEST_P(SlipstreamBuffersTest, WhatALossySumLeavesOutIsInTheNextUpdate) {
  buffers_.Copy(Copy::kReset, kNames);
  model_.Add(2);
  buffers_.Copy(Copy::kPublish, kNames);
  const SlipstreamRank::Buffers in_flight = {1, 0, 2};
  FillUpdate(in_flight);
  at::Tensor(buffers_.wire()).fill_(1.5);
  at::Tensor(buffers_.rest()).fill_(0.5);
  buffers_.ApplyLossyUpdates(2, /*has_update=*/true, in_flight);
  const SlipstreamRank::Buffers finished = {1, 2, 0};
  buffers_.Copy(Copy::kRebase, finished);
  EXPECT_EQ(buffers_.z()[5].item<float>(), 1.75);
  EXPECT_EQ(model_.many(kMany - 1), 2.25);
  EXPECT_NEAR(FillUpdate({2, 1, 0}), 0.25 * kValues, kRounding * kValues);
  // In a sum that it adds up for all without an update of its own.
  at::Tensor(buffers_.wire()).fill_(0);
  at::Tensor(buffers_.rest()).fill_(0.25);
  buffers_.ApplyLossyUpdates(2, /*has_update=*/false, finished);
  EXPECT_EQ(model_.many(0), 2.25);
  EXPECT_NEAR(FillUpdate({2, 1, 0}), 0.5625 * kValues, kRounding * kValues);
}

TEST_P(SlipstreamBuffersTest, WhatIsInFlightIsRebasedToo) {
  buffers_.Copy(Copy::kReset, kNames);
  model_.Add(2);
  buffers_.Copy(Copy::kPublish, kNames);
  const SlipstreamRank::Buffers in_flight = {1, 0, 2};
  at::Tensor(buffers_.z()).add_(16);
  buffers_.Copy(Copy::kRebaseInFlight, in_flight);
  EXPECT_EQ(model_.many(0), 1 + 16 + 2);
  EXPECT_NEAR(FillUpdate(in_flight), 4.0 * kValues, kRounding * 4.0 * kValues);
}

TEST_P(SlipstreamBuffersTest, AnUpdateThatIsNotFiniteIsSeen) {
  buffers_.Copy(Copy::kReset, kNames);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    at::Tensor(model_.buffers()[0].tensor)[0].fill_(bad);
    buffers_.Copy(Copy::kPublish, kNames);
    EXPECT_FALSE(std::isfinite(FillUpdate({1, 0, 2})));
  }
  buffers_.Copy(Copy::kLoad, kNames);
  EXPECT_EQ(model_.buffers()[0].tensor[0].item<float>(), 3);
}

TEST_P(SlipstreamBuffersTest, GradientsAndStatisticsBecomeMeans) {
  model_.SetGradients(2);
  EXPECT_NEAR(buffers_.SquaredGradient([] {}), 4.0 * (kMany + 6), 1);
  at::Tensor(model_.buffers()[0].tensor).fill_(5);
  buffers_.TakeGradients();
  for (const auto& one : model_.parameters()) EXPECT_FALSE(one.tensor.grad().defined());
  buffers_.FillGradient();
  at::Tensor(buffers_.wire()).mul_(3);  // The sum of three equal ranks.
  buffers_.ApplyGradients(3, /*max_norm=*/0);
  EXPECT_EQ(buffers_.wire_parameters()[1][0][1].item<float>(), 2);
  EXPECT_EQ(buffers_.z()[kValues - 1].item<float>(), 5);
  EXPECT_EQ(buffers_.z()[0].item<float>(), 1) << "that is the optimizer's";
  buffers_.DropGradients();
  EXPECT_FALSE(model_.parameters()[0].tensor.grad().defined());
  buffers_.FillZeros();
  EXPECT_EQ(buffers_.wire().abs().sum().item<float>(), 0);
}

TEST_P(SlipstreamBuffersTest, TheMeanOfTheGradientsIsClipped) {
  const auto mean_of = [&](double sum, double max_norm) {
    at::Tensor(buffers_.wire()).fill_(sum);
    buffers_.ApplyGradients(2, max_norm);
    EXPECT_EQ(buffers_.z()[kValues - 1].item<float>(), sum / 2) << "statistics are not";
    return buffers_.wire_parameters()[1][1][1].item<float>();
  };
  const double norm = 3 * std::sqrt(kMany + 6.0);
  EXPECT_EQ(mean_of(6, norm + 1), 3);
  EXPECT_NEAR(mean_of(6, norm / 2), 1.5, 1e-5);
  EXPECT_NEAR(mean_of(6, 1), 3 / norm, 1e-7);
}

TEST_P(SlipstreamBuffersTest, TheHashDependsOnEachBit) {
  const uint64_t hash = buffers_.Hash();
  EXPECT_EQ(buffers_.Hash(), hash);
  at::Tensor(buffers_.z())[77].add_(1e-6);
  EXPECT_NE(buffers_.Hash(), hash);
}

// Runs on a new thread that has used no other threads yet.
void WithThreads(int threads, const std::function<void()>& what) {
  std::thread([&] {
    at::set_num_threads(threads);
    what();
  }).join();
}

TEST(SlipstreamChunksTest, TheResultDoesNotDependOnTheNumberOfThreads) {
  std::vector<at::Tensor> results;
  for (const int threads : {1, 2, 3, 5}) {
    WithThreads(threads, [&] {
      Parts model;
      SlipstreamBuffers buffers(model);
      buffers.Copy(Copy::kReset, kNames);
      const at::Generator random = at::detail::createCPUGenerator(1);
      const at::Tensor update = at::randn({kMany}, random, at::kFloat);
      at::Tensor(model.parameters()[0].tensor.detach()).add_(update);
      buffers.Copy(Copy::kPublish, kNames);
      const double squared = buffers.FillUpdate({1, 0, 2}, [] {});
      buffers.ApplyUpdates(3);
      buffers.ApplyGradients(3, /*max_norm=*/0.1);
      results.push_back(
          at::cat({buffers.z(), buffers.wire(), at::full({1}, squared, at::kDouble)}));
    });
  }
  for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result, results[0]));
}

#ifdef PACELINE_OPENMP
std::set<std::string> ThreadsOfThisProcess() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(task.path().filename());
  }
  return ids;
}

TEST(SlipstreamChunksTest, PassesAreMadeByAllThreadsOfThePool) {
  Parts model;
  SlipstreamBuffers buffers(model);
  // Threads of an earlier test's pool may still be ending.
  const std::set<std::string> before = ThreadsOfThisProcess();
  const auto added = [&] {
    std::set<std::string> ids = ThreadsOfThisProcess();
    for (const std::string& id : before) ids.erase(id);
    return ids.size();
  };
  WithThreads(3, [&] {
    EXPECT_EQ(added(), 1u);
    buffers.Copy(Copy::kReset, kNames);
    EXPECT_EQ(added(), 3u);
  });
}
#endif

class Doubles : public Parts {
 public:
  Doubles() { AddParameter("wide", at::zeros({2}, at::kDouble)); }
};

TEST(SlipstreamChunksTest, OtherTypesAreRefusedByName) {
  Doubles model;
  try {
    const SlipstreamBuffers buffers(model);
    ADD_FAILURE() << "a parameter of doubles";
  } catch (const c10::ValueError& error) {
    EXPECT_NE(error.msg().find("wide"), std::string::npos) << error.msg();
  }
}

}  // namespace
}  // namespace paceline
