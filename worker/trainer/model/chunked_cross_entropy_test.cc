#include "worker/trainer/model/chunked_cross_entropy.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "worker/trainer/model/cpu_llama_kernels.h"
#include "worker/trainer/model/testing/memory_count.h"

namespace paceline {
namespace {

// Leaves of the loss, and the targets.
struct Inputs {
  at::Tensor hidden;   // [tokens, dim]
  at::Tensor head;     // [vocab_size, dim]
  at::Tensor targets;  // [tokens]
};

Inputs MakeInputs(int64_t tokens, int64_t dim, int64_t vocab_size, at::ScalarType type) {
  at::manual_seed(tokens);
  Inputs inputs;
  inputs.hidden = at::randn({tokens, dim}, type).requires_grad_(true);
  inputs.head = at::randn({vocab_size, dim}, type).requires_grad_(true);
  inputs.targets = at::randint(0, vocab_size, {tokens}, at::kLong);
  return inputs;
}

at::Tensor PlainLoss(const Inputs& inputs, at::ScalarType product_type) {
  const at::Tensor logits =
      at::linear(inputs.hidden.to(product_type), inputs.head.to(product_type));
  return at::cross_entropy_loss(logits.to(inputs.hidden.scalar_type()), inputs.targets);
}

struct Results {
  at::Tensor loss;
  at::Tensor grad_hidden;
  at::Tensor grad_head;
};

// Takes the gradients of three times the loss.
Results LossAndGradients(const Inputs& inputs,
                         const std::function<at::Tensor(const Inputs&)>& loss_of) {
  inputs.hidden.mutable_grad() = at::Tensor();
  inputs.head.mutable_grad() = at::Tensor();
  const at::Tensor loss = loss_of(inputs);
  loss.mul(3).backward();
  return {loss.detach(), inputs.hidden.grad(), inputs.head.grad()};
}

void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_EQ(actual.scalar_type(), expected.scalar_type());
  const double error = actual.sub(expected).abs().max().item<double>();
  EXPECT_LE(error, tolerance * expected.abs().max().item<double>());
}

void ExpectLikePlain(const Inputs& inputs, int64_t chunk_tokens, at::ScalarType product_type,
                     double tolerance) {
  const Results expected =
      LossAndGradients(inputs, [&](const Inputs& in) { return PlainLoss(in, product_type); });
  const Results actual = LossAndGradients(inputs, [&](const Inputs& in) {
    return ChunkedCrossEntropy(in.hidden, in.head, in.targets, chunk_tokens, product_type);
  });
  ExpectClose(actual.loss, expected.loss, tolerance);
  ExpectClose(actual.grad_hidden, expected.grad_hidden, tolerance);
  ExpectClose(actual.grad_head, expected.grad_head, tolerance);
}

TEST(ChunkedCrossEntropyTest, LossAndGradientsAreThoseOfAllLogits) {
  // One token at a time, chunks that do and do not divide 30 tokens, a single chunk.
  for (const int64_t chunk_tokens : {1, 7, 10, 30, 100}) {
    SCOPED_TRACE(chunk_tokens);
    ExpectLikePlain(MakeInputs(30, 8, 41, at::kDouble), chunk_tokens, at::kDouble, 1e-13);
    ExpectLikePlain(MakeInputs(30, 8, 41, at::kFloat), chunk_tokens, at::kFloat, 1e-5);
    ExpectLikePlain(MakeInputs(30, 8, 41, at::kFloat), chunk_tokens, at::kBFloat16, 2e-2);
  }
}

// Central differences in double, with respect to each element.
void ExpectDifferences(const Inputs& inputs, const at::Tensor& leaf, const at::Tensor& gradient) {
  constexpr double kStep = 1e-5;
  at::NoGradGuard no_grad;
  const auto loss_with = [&](int64_t i, double change) {
    leaf.view({-1})[i].add_(change);
    const double loss =
        ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, 2, at::kDouble)
            .item<double>();
    leaf.view({-1})[i].sub_(change);
    return loss;
  };
  for (int64_t i = 0; i < leaf.numel(); ++i) {
    const double slope = (loss_with(i, kStep) - loss_with(i, -kStep)) / (2 * kStep);
    EXPECT_NEAR(gradient.view({-1})[i].item<double>(), slope, 1e-8) << "element " << i;
  }
}

TEST(ChunkedCrossEntropyTest, GradientsAreTheSlopesOfTheLoss) {
  Inputs inputs = MakeInputs(5, 3, 4, at::kDouble);
  inputs.targets[1].fill_(-100);
  ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, 2, at::kDouble).backward();
  ExpectDifferences(inputs, inputs.hidden, inputs.hidden.grad());
  ExpectDifferences(inputs, inputs.head, inputs.head.grad());
}

TEST(ChunkedCrossEntropyTest, IgnoredTargetsCountForNothing) {
  Inputs inputs = MakeInputs(12, 8, 41, at::kDouble);
  inputs.targets.narrow(0, 3, 4).fill_(-100);  // With chunks of 2, one has no other targets.
  ExpectLikePlain(inputs, 2, at::kDouble, 1e-13);
  EXPECT_EQ(inputs.hidden.grad().narrow(0, 3, 4).abs().max().item<double>(), 0);
  inputs.targets.fill_(-100);
  const at::Tensor none =
      ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, 2, at::kDouble);
  EXPECT_TRUE(std::isnan(none.item<double>())) << "as at::cross_entropy_loss";
}

TEST(ChunkedCrossEntropyTest, RowsNeedNotBeContiguous) {
  Inputs inputs = MakeInputs(30, 8, 41, at::kDouble);
  inputs.hidden = at::randn({8, 30}, at::kDouble).t().requires_grad_(true);
  inputs.head = at::randn({8, 41}, at::kDouble).t().requires_grad_(true);
  ExpectLikePlain(inputs, 7, at::kDouble, 1e-13);
}

TEST(ChunkedCrossEntropyTest, GradientsOfSeveralPassesAddUp) {
  const Inputs whole = MakeInputs(30, 8, 41, at::kDouble);
  const Results expected = LossAndGradients(whole, [](const Inputs& in) {
    return ChunkedCrossEntropy(in.hidden, in.head, in.targets, 7, at::kDouble);
  });
  // Both graphs exist at once; each has half of the tokens.
  const Results actual = LossAndGradients(whole, [](const Inputs& in) {
    const auto half = [&](int64_t begin) {
      return ChunkedCrossEntropy(in.hidden.narrow(0, begin, 15), in.head,
                                 in.targets.narrow(0, begin, 15), 4, at::kDouble);
    };
    return half(0).add(half(15)).div(2);
  });
  ExpectClose(actual.loss, expected.loss, 1e-13);
  ExpectClose(actual.grad_hidden, expected.grad_hidden, 1e-13);
  ExpectClose(actual.grad_head, expected.grad_head, 1e-13);
}

// Doubles go through torch's operations.
TEST(ChunkedCrossEntropyTest, TheLoopsIgnoreTargetsToo) {
  Inputs inputs = MakeInputs(30, 8, 41, at::kFloat);
  inputs.targets.narrow(0, 3, 4).fill_(-100);
  for (const int64_t chunk_tokens : {2, 7}) {
    ExpectLikePlain(inputs, chunk_tokens, at::kFloat, 1e-5);
    ExpectLikePlain(inputs, chunk_tokens, at::kBFloat16, 2e-2);
    EXPECT_EQ(inputs.hidden.grad().narrow(0, 3, 4).abs().max().item<float>(), 0);
  }
}

struct Rows {
  at::Tensor log_probabilities;
  at::Tensor grad_logits;
};

// In double, as log_softmax and its gradient are defined.
Rows RowsByFormula(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& shares) {
  const at::Tensor x = logits.to(at::kDouble);
  const at::Tensor wide = x.sub(x.logsumexp(1, /*keepdim=*/true));
  const at::Tensor own = targets.unsqueeze(1);
  const at::Tensor ones = shares.to(at::kDouble).unsqueeze(1);
  const at::Tensor gradient = wide.exp().mul(ones).scatter_add(1, own, ones.neg());
  return {wide.gather(1, own).squeeze(1), gradient};
}

Rows RowsByKernel(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& shares) {
  const at::Tensor copy = logits.clone();
  const at::Tensor log_probabilities = CrossEntropyOnCpu(copy, targets, shares);
  return {log_probabilities, copy};
}

TEST(ChunkedCrossEntropyTest, RowsOfAllWidthsAndSizes) {
  // With and without a rest of a vector; one class; more rows than a thread takes.
  for (const int64_t classes : {1, 2, 31, 32, 33, 1000, 5003}) {
    for (const double size : {1e-3, 1.0, 30.0, 1e4}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(testing::Message() << classes << " classes of size " << size << " " << type);
        at::manual_seed(classes);
        const at::Tensor logits = at::randn({19, classes}).mul(size).to(type);
        const at::Tensor targets = at::randint(0, classes, {19}, at::kLong);
        const at::Tensor shares = at::randn({19});
        const Rows expected = RowsByFormula(logits, targets, shares);
        const Rows actual = RowsByKernel(logits, targets, shares);
        const double rounding = type == at::kFloat ? 1e-5 : 1.0 / 256;
        EXPECT_EQ(actual.grad_logits.scalar_type(), type);
        EXPECT_TRUE(actual.log_probabilities.to(at::kDouble)
                        .allclose(expected.log_probabilities, 1e-5, 1e-5));
        EXPECT_TRUE(
            actual.grad_logits.to(at::kDouble).allclose(expected.grad_logits, rounding, 2e-5));
      }
    }
  }
}

TEST(ChunkedCrossEntropyTest, TheNumberOfThreadsChangesNoBitOfARow) {
  const at::Tensor logits = at::randn({67, 5003});
  const at::Tensor targets = at::randint(0, 5003, {67}, at::kLong);
  const at::Tensor shares = at::randn({67});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Rows one = RowsByKernel(logits, targets, shares);
  at::set_num_threads(3);
  const Rows three = RowsByKernel(logits, targets, shares);
  at::set_num_threads(threads);
  EXPECT_TRUE(three.log_probabilities.equal(one.log_probabilities));
  EXPECT_TRUE(three.grad_logits.equal(one.grad_logits));
}

TEST(ChunkedCrossEntropyTest, ARowThatIsNotFiniteIsNanAndNoOther) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t place : {0, 17, 40, 69}) {
      SCOPED_TRACE(testing::Message() << "place " << place << " " << type);
      at::Tensor logits = at::randn({4, 70}).to(type);
      logits[0][place].fill_(std::nan(""));
      logits[1][place].fill_(kInfinity);
      logits[2].fill_(-kInfinity);
      logits[3][place].fill_(-kInfinity);
      const at::Tensor targets = at::full({4}, 20, at::kLong);
      const Rows rows = RowsByKernel(logits, targets, at::full({4}, 0.25));
      EXPECT_TRUE(rows.log_probabilities.narrow(0, 0, 3).isnan().all().item<bool>());
      EXPECT_TRUE(rows.grad_logits.narrow(0, 0, 3).isnan().all().item<bool>());
      EXPECT_TRUE(rows.log_probabilities[3].isfinite().item<bool>());
      EXPECT_TRUE(rows.grad_logits[3].isfinite().all().item<bool>());
      EXPECT_LT(rows.grad_logits[3][place].abs().item<double>(), 1e-30);
    }
  }
}

TEST(ChunkedCrossEntropyTest, ASecondBackwardPassIsAnError) {
  const Inputs inputs = MakeInputs(6, 4, 9, at::kFloat);
  for (const bool keep_graph : {false, true}) {
    const at::Tensor loss =
        ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, 2, at::kFloat);
    loss.backward(/*gradient=*/{}, keep_graph);
    EXPECT_THROW(loss.backward(), c10::Error);
  }
}

TEST(ChunkedCrossEntropyTest, WhatIsNotFiniteIsNotHidden) {
  const Inputs inputs = MakeInputs(6, 4, 9, at::kFloat);
  at::Tensor hidden = inputs.hidden.detach().clone();
  hidden[4].fill_(std::nan(""));
  const at::Tensor loss = ChunkedCrossEntropy(hidden, inputs.head, inputs.targets, 2, at::kFloat);
  EXPECT_TRUE(std::isnan(loss.item<float>()));
}

TEST(ChunkedCrossEntropyTest, TargetsOfAnotherTypeAreAnError) {
  const at::Tensor zeros = at::zeros({4}, at::kInt);
  EXPECT_THROW(CrossEntropyOnCpu(at::randn({4, 9}), zeros, at::Tensor()), c10::Error);
}

TEST(ChunkedCrossEntropyTest, AnUnknownClassIsAnError) {
  Inputs inputs = MakeInputs(6, 4, 9, at::kFloat);
  inputs.targets[5].fill_(9);
  EXPECT_THROW(ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, 2, at::kFloat),
               c10::Error);
}

TEST(ChunkedCrossEntropyTest, WithoutGradientsTheLossIsTheSameAndKeepsNothing) {
  const Inputs inputs = MakeInputs(30, 8, 41, at::kFloat);
  const at::Tensor expected =
      ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, 7, at::kFloat);
  at::NoGradGuard no_grad;
  const auto count = std::make_shared<MemoryCount>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  const at::Tensor loss =
      ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, 7, at::kFloat);
  EXPECT_LT(count->live, 1024);
  EXPECT_TRUE(loss.equal(expected));
  EXPECT_FALSE(loss.requires_grad());
}

int64_t PeakOfStep(const std::function<at::Tensor()>& loss_of) {
  const auto count = std::make_shared<MemoryCount>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
  loss_of().backward();
  return count->peak;
}

TEST(ChunkedCrossEntropyTest, OnlyOneChunksLogitsExistAtATime) {
  constexpr int64_t kTokens = 512;
  constexpr int64_t kDim = 16;
  constexpr int64_t kVocabSize = 1000;
  constexpr int64_t kChunk = 32;
  const Inputs plain = MakeInputs(kTokens, kDim, kVocabSize, at::kFloat);
  const int64_t plain_peak = PeakOfStep([&] { return PlainLoss(plain, at::kFloat); });
  // Logits and their log-probabilities, each 2,048,000 bytes.
  EXPECT_GE(plain_peak, 2 * 4 * kTokens * kVocabSize);
  const Inputs inputs = MakeInputs(kTokens, kDim, kVocabSize, at::kFloat);
  const int64_t peak = PeakOfStep([&] {
    return ChunkedCrossEntropy(inputs.hidden, inputs.head, inputs.targets, kChunk, at::kFloat);
  });
  // Both gradients, and logits of one chunk: 32,768 + 64,000 + 128,000 bytes; and some columns of a
  // number per token.
  const int64_t formula = 4 * (kTokens * kDim + kVocabSize * kDim + kChunk * kVocabSize);
  EXPECT_GE(peak, formula);
  EXPECT_LE(peak, formula + 64 * 1024);
}

}  // namespace
}  // namespace paceline
