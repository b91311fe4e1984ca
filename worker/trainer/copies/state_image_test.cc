#include "worker/trainer/copies/state_image.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

class TinyModel : public Model {
 public:
  explicit TinyModel(int64_t size = 3) : Model(at::kCPU) {
    AddParameter("weight", at::rand({size, 5}));
    AddParameter("empty", at::zeros({0}));
    AddBuffer("statistic", at::rand({2}));
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return parameters()[0].tensor.sum(); }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

// A number and a tensor of its size.
class TinyAttachments : public Attachments {
 public:
  std::string Names() const override { return "tiny"; }
  Attachment Take(Scope scope) const override {
    return scope == Scope::kShared ? Attachment{std::to_string(shared.numel()), {shared}}
                                   : Attachment{"own", {own}};
  }
  std::vector<at::Tensor> Allocate(Scope scope, const std::string& schema) const override {
    const int64_t size = scope == Scope::kShared ? std::stoll(schema) : 1;
    return {at::empty({size})};
  }
  void Put(Scope scope, const Attachment& attachment) override {
    (scope == Scope::kShared ? shared : own) = attachment.tensors[0];
  }
  void Keep() override {}
  void Undo() override {}

  at::Tensor shared = at::full({4}, 4.0F);
  at::Tensor own = at::full({1}, 1.0F);
};

OptimizerConfig AdamW() {
  OptimizerConfig config;
  config.kind = OptimizerConfig::Kind::kAdamW;
  return config;
}

// A rank, and the memory of its copy.
struct Rank {
  explicit Rank(int64_t size = 3)
      : model(size), optimizer(MakeOptimizer(AdamW(), TensorsOf(model.parameters()))) {}

  StateParts parts() {
    return {model, *optimizer, attached ? &attachments : nullptr, &levels, &gradient_rest};
  }

  void Change() {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& tensor : TensorsOf(model.parameters())) at::Tensor(tensor).add_(1);
    for (const at::Tensor& tensor : TensorsOf(model.buffers())) at::Tensor(tensor).add_(1);
    for (const at::Tensor& tensor : optimizer->State()) at::Tensor(tensor).add_(1);
    attachments.shared = at::full({6}, 6.0F);
    attachments.own = at::full({1}, 7.0F);
    levels.clear();
  }

  void Copy(const ImageFacts& facts) {
    StateImage image(parts(), facts);
    memory.resize(image.bytes());
    image.Stage(platform, memory.data());
    image.BeforeChange();
    Change();
    image.Wait();
  }

  bool attached = false;
  TinyModel model;
  std::unique_ptr<Optimizer> optimizer;
  TinyAttachments attachments;
  std::vector<StrategyMemory::Level> levels;
  at::Tensor gradient_rest;
  CpuPlatform platform;
  std::string memory;
};

ImageFacts Facts() {
  ImageFacts facts;
  facts.label = {3, 40, 2};
  facts.data = {1, 96};
  facts.evaluated = 30;
  facts.alone_below = 20;
  facts.layout = 7;
  facts.all_equal = false;
  return facts;
}

std::vector<at::Tensor> Values(Rank& rank) {
  std::vector<at::Tensor> values;
  for (const auto& part : {TensorsOf(rank.model.parameters()), TensorsOf(rank.model.buffers()),
                           rank.optimizer->State()}) {
    for (const at::Tensor& tensor : part) values.push_back(tensor.detach().clone());
  }
  return values;
}

bool AreEqual(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool equal = a.size() == b.size();
  for (size_t i = 0; equal && i < a.size(); ++i) equal = a[i].equal(b[i]);
  return equal;
}

TEST(StateImageTest, AnotherRankGoesOnWithTheStateThatWasCopied) {
  Rank rank;
  const std::vector<at::Tensor> before = Values(rank);
  rank.Copy(Facts());
  const at::Tensor drawn = at::rand({4});
  EXPECT_FALSE(AreEqual(Values(rank), before));

  Rank other;
  ImageFacts facts;
  ASSERT_TRUE(RestoreImage(rank.memory.data(), rank.memory.size(), other.parts(), &facts).ok());
  EXPECT_TRUE(at::rand({4}).equal(drawn));
  EXPECT_TRUE(AreEqual(Values(other), before));
  EXPECT_EQ(facts.label, (CopyLabel{3, 40, 2}));
  EXPECT_EQ(facts.data, (DataPosition{1, 96}));
  EXPECT_EQ(facts.evaluated, 30);
  EXPECT_EQ(facts.alone_below, 20);
  EXPECT_EQ(facts.layout, 7U);
  EXPECT_FALSE(facts.all_equal);
}

TEST(StateImageTest, WhatIsAttachedHasTheSizeThatItHad) {
  Rank rank;
  rank.attached = true;
  rank.Copy(Facts());
  ImageFacts facts;
  ASSERT_TRUE(RestoreImage(rank.memory.data(), rank.memory.size(), rank.parts(), &facts).ok());
  EXPECT_TRUE(rank.attachments.shared.equal(at::full({4}, 4.0F)));
  EXPECT_TRUE(rank.attachments.own.equal(at::full({1}, 1.0F)));
}

TEST(StateImageTest, AveragesThatSendInt8GoOnWithTheirReferencesAndRoundingErrors) {
  const at::Tensor reference = at::rand({15});
  const at::Tensor own = at::rand({1024});
  const at::Tensor mean = at::rand({512});
  for (const bool attached : {false, true}) {
    Rank rank;
    rank.attached = attached;
    rank.levels.resize(2);  // The first one sends fp32.
    rank.levels[1].reference = reference;
    rank.levels[1].reference_number = 5;
    rank.levels[1].residuals = {own, mean};
    rank.Copy(Facts());

    Rank other;
    other.attached = attached;
    ImageFacts facts;
    ASSERT_TRUE(RestoreImage(rank.memory.data(), rank.memory.size(), other.parts(), &facts).ok());
    ASSERT_EQ(other.levels.size(), 2U);
    EXPECT_FALSE(other.levels[0].reference.defined());
    const StrategyMemory::Level& level = other.levels[1];
    EXPECT_EQ(level.reference_number, 5);
    EXPECT_TRUE(level.reference.equal(reference));
    EXPECT_TRUE(level.residuals.own.equal(own));
    EXPECT_TRUE(level.residuals.mean.equal(mean));
  }
}

TEST(StateImageTest, QuantisedGradientsGoOnWithWhatTheyHaveLeftOut) {
  Rank rank;
  const at::Tensor momentum = at::rand({15});
  rank.levels.resize(1);
  rank.levels[0].momentum = momentum;
  rank.gradient_rest = at::rand({15});
  rank.Copy(Facts());
  Rank other;
  ImageFacts facts;
  ASSERT_TRUE(RestoreImage(rank.memory.data(), rank.memory.size(), other.parts(), &facts).ok());
  EXPECT_TRUE(other.gradient_rest.equal(rank.gradient_rest));
  EXPECT_TRUE(other.levels[0].momentum.equal(momentum));
  rank.gradient_rest.reset();
  rank.Copy(Facts());
  ASSERT_TRUE(RestoreImage(rank.memory.data(), rank.memory.size(), other.parts(), &facts).ok());
  EXPECT_FALSE(other.gradient_rest.defined());
}

TEST(StateImageTest, OuterStepsGoOnWithTheirPointsAndMomenta) {
  Rank rank;
  const at::Tensor point = at::rand({15});
  const at::Tensor momentum = at::rand({15});
  rank.levels.resize(3);
  rank.levels[1].reference = point;
  rank.levels[1].reference_number = 7;
  rank.levels[1].momentum = momentum;
  rank.levels[2].momentum = momentum;  // The groups have changed.
  const at::Tensor sent = at::rand({9});
  rank.levels[1].stream.position = {8, 8, 4};
  rank.levels[1].stream.sent = sent;
  const at::Tensor before = at::full({8}, 0.25, at::kFloat);
  rank.levels[1].residuals = {at::full({8}, 0.5, at::kFloat), at::full({4}, 0.5, at::kFloat)};
  rank.levels[1].before = {before, at::zeros({4}, at::kFloat)};
  rank.Copy(Facts());

  Rank other;
  ImageFacts facts;
  ASSERT_TRUE(RestoreImage(rank.memory.data(), rank.memory.size(), other.parts(), &facts).ok());
  ASSERT_EQ(other.levels.size(), 3U);
  EXPECT_FALSE(other.levels[0].momentum.defined());
  EXPECT_EQ(other.levels[1].reference_number, 7);
  EXPECT_TRUE(other.levels[1].reference.equal(point));
  EXPECT_TRUE(other.levels[1].momentum.equal(momentum));
  EXPECT_EQ(other.levels[1].stream.position, (StreamPosition{8, 8, 4}));
  EXPECT_TRUE(other.levels[1].stream.sent.equal(sent));
  EXPECT_FALSE(other.levels[0].stream.sent.defined());
  EXPECT_TRUE(other.levels[1].residuals.own.equal(before)) << "for it is sent again";
  EXPECT_TRUE(other.levels[1].residuals.mean.equal(at::zeros({4}, at::kFloat)));
  EXPECT_FALSE(other.levels[0].residuals.own.defined());
  EXPECT_FALSE(other.levels[2].reference.defined());
  EXPECT_TRUE(other.levels[2].momentum.equal(momentum));
}

TEST(StateImageTest, WhatDoesNotFitChangesNothing) {
  Rank rank;
  rank.Copy(Facts());
  ImageFacts facts;
  Rank larger(4);
  const std::vector<at::Tensor> before = Values(larger);
  EXPECT_EQ(RestoreImage(rank.memory.data(), rank.memory.size(), larger.parts(), &facts).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_TRUE(AreEqual(Values(larger), before));
  const std::vector<at::Tensor> changed = Values(rank);
  for (const size_t bytes : {size_t{0}, size_t{64}, rank.memory.size() - 1}) {
    EXPECT_EQ(RestoreImage(rank.memory.data(), bytes, rank.parts(), &facts).code(),
              absl::StatusCode::kDataLoss)
        << bytes;
  }
  EXPECT_TRUE(AreEqual(Values(rank), changed));
}

}  // namespace
}  // namespace paceline
