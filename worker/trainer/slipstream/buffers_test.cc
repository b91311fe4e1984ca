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
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

namespace paceline {
namespace {

using Copy = ComputeOrder::Copy;

constexpr int64_t kMany = 200'000;  // More than two chunks.

class Parts : public Model {
 public:
  Parts() : Model(at::kCPU) {
    AddParameter("many", at::full({kMany}, 1.0F));
    // Dense, but in another order than its indices.
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

constexpr SlipstreamRank::Buffers kNames = {0, 1, 2};
constexpr int64_t kValues = kMany + 6 + 2;

TEST(SlipstreamBuffersTest, HoldParametersAndStatisticsButNoCountersAndConstants) {
  Parts model;
  const SlipstreamBuffers buffers(model);
  EXPECT_EQ(buffers.z().numel(), kValues);
  EXPECT_EQ(buffers.z()[0].item<float>(), 1);
  EXPECT_EQ(buffers.z()[kValues - 1].item<float>(), 3);
  EXPECT_EQ(buffers.z_parameters().size(), 2U);
  EXPECT_EQ(buffers.z_parameters()[1][2][1].item<float>(), 5);
}

TEST(SlipstreamBuffersTest, AnUpdateTravelsAndTheOwnWorkIsRebased) {
  Parts model;
  SlipstreamBuffers buffers(model);
  buffers.Copy(Copy::kReset, kNames);
  model.Add(2);
  buffers.Copy(Copy::kPublish, kNames);
  const SlipstreamRank::Buffers in_flight = {1, 0, 2};
  EXPECT_DOUBLE_EQ(buffers.FillUpdate(in_flight), 4.0 * kValues);
  model.Add(8);             // Not sent yet.
  buffers.ApplyUpdates(2);  // Another rank had nothing.
  const SlipstreamRank::Buffers finished = {1, 2, 0};
  buffers.Copy(Copy::kRebase, finished);
  EXPECT_EQ(buffers.z()[5].item<float>(), 2);
  EXPECT_EQ(model.many(kMany - 1), 1 + 1 + 8);
  EXPECT_EQ(model.turned(2, 1), 5 + 1 + 8);
  EXPECT_EQ(model.mean(), 3 + 1 + 8);
  EXPECT_DOUBLE_EQ(buffers.FillUpdate({2, 1, 0}), 64.0 * kValues) << "pub is x";
}

TEST(SlipstreamBuffersTest, WhatIsInFlightIsRebasedToo) {
  Parts model;
  SlipstreamBuffers buffers(model);
  buffers.Copy(Copy::kReset, kNames);
  model.Add(2);
  buffers.Copy(Copy::kPublish, kNames);
  const SlipstreamRank::Buffers in_flight = {1, 0, 2};
  at::Tensor(buffers.z()).add_(16);
  buffers.Copy(Copy::kRebaseInFlight, in_flight);
  EXPECT_EQ(model.many(0), 1 + 16 + 2);
  EXPECT_DOUBLE_EQ(buffers.FillUpdate(in_flight), 4.0 * kValues);
}

TEST(SlipstreamBuffersTest, AnUpdateThatIsNotFiniteIsSeen) {
  Parts model;
  SlipstreamBuffers buffers(model);
  buffers.Copy(Copy::kReset, kNames);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    at::Tensor(model.buffers()[0].tensor)[0].fill_(bad);
    buffers.Copy(Copy::kPublish, kNames);
    EXPECT_FALSE(std::isfinite(buffers.FillUpdate({1, 0, 2})));
  }
  buffers.Copy(Copy::kLoad, kNames);
  EXPECT_EQ(model.buffers()[0].tensor[0].item<float>(), 3);
}

TEST(SlipstreamBuffersTest, GradientsAndStatisticsBecomeMeans) {
  Parts model;
  SlipstreamBuffers buffers(model);
  model.SetGradients(2);
  EXPECT_NEAR(buffers.SquaredGradient(), 4.0 * (kMany + 6), 1);
  at::Tensor(model.buffers()[0].tensor).fill_(5);
  buffers.FillGradient();
  at::Tensor(buffers.wire()).mul_(3);  // Three ranks with the same.
  buffers.ApplyGradients(3, /*max_norm=*/0);
  EXPECT_EQ(buffers.wire_parameters()[1][0][1].item<float>(), 2);
  EXPECT_EQ(buffers.z()[kValues - 1].item<float>(), 5);
  EXPECT_EQ(buffers.z()[0].item<float>(), 1) << "that is the optimizer's";
  buffers.DropGradients();
  EXPECT_FALSE(model.parameters()[0].tensor.grad().defined());
  buffers.FillZeros();
  EXPECT_EQ(buffers.wire().abs().sum().item<float>(), 0);
}

TEST(SlipstreamBuffersTest, TheMeanOfTheGradientsIsClipped) {
  Parts model;
  SlipstreamBuffers buffers(model);
  const auto mean_of = [&](double sum, double max_norm) {
    at::Tensor(buffers.wire()).fill_(sum);
    buffers.ApplyGradients(2, max_norm);
    EXPECT_EQ(buffers.z()[kValues - 1].item<float>(), sum / 2) << "statistics are not";
    return buffers.wire_parameters()[1][1][1].item<float>();
  };
  const double norm = 3 * std::sqrt(kMany + 6.0);
  EXPECT_EQ(mean_of(6, norm + 1), 3);
  EXPECT_NEAR(mean_of(6, norm / 2), 1.5, 1e-6);
  EXPECT_NEAR(mean_of(6, 1), 3 / norm, 1e-7);
}

TEST(SlipstreamBuffersTest, TheHashDependsOnEachBit) {
  Parts model;
  SlipstreamBuffers buffers(model);
  const uint64_t hash = buffers.Hash();
  EXPECT_EQ(buffers.Hash(), hash);
  at::Tensor(buffers.z())[77].add_(1e-6);
  EXPECT_NE(buffers.Hash(), hash);
}

// In a thread of its own, that has used no others yet.
void WithThreads(int threads, const std::function<void()>& what) {
  std::thread([&] {
    at::set_num_threads(threads);
    what();
  }).join();
}

TEST(SlipstreamBuffersTest, TheResultDoesNotDependOnTheNumberOfThreads) {
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
      const double squared = buffers.FillUpdate({1, 0, 2});
      buffers.ApplyUpdates(3);
      buffers.ApplyGradients(3, /*max_norm=*/0.1);
      results.push_back(
          at::cat({buffers.z(), buffers.wire(), at::full({1}, squared, at::kDouble)}));
    });
  }
  for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result, results[0]));
}

#ifdef _OPENMP
int ThreadsOfThisProcess() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

TEST(SlipstreamBuffersTest, PassesAreMadeByAllThreadsOfThePool) {
  Parts model;
  SlipstreamBuffers buffers(model);
  const int before = ThreadsOfThisProcess();
  WithThreads(3, [&] {
    EXPECT_EQ(ThreadsOfThisProcess(), before + 1);
    buffers.Copy(Copy::kReset, kNames);
    EXPECT_EQ(ThreadsOfThisProcess(), before + 3);
  });
}
#endif

class Doubles : public Parts {
 public:
  Doubles() { AddParameter("wide", at::zeros({2}, at::kDouble)); }
};

TEST(SlipstreamBuffersTest, OtherTypesAreRefusedByName) {
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
