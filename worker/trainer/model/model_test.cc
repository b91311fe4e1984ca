#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/std.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

constexpr ImageFormat kFormat{3, 32, 32, 7};
const SampleFormat kImages{kFormat, std::nullopt};

std::map<std::string, std::vector<int64_t>> Shapes(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const NamedTensor& named : tensors) shapes[named.name] = named.tensor.sizes().vec();
  return shapes;
}

at::Tensor Find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& named : tensors) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << name << " is missing";
  return at::Tensor();
}

std::unique_ptr<Model> MakeResNet(uint64_t seed) {
  absl::StatusOr<std::unique_ptr<Model>> model = MakeModel({}, kImages, seed, at::kCPU);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(ModelTest, ResNet18HasTorchvisionsParametersAndBuffers) {
  const std::unique_ptr<Model> model = MakeResNet(0);
  const auto parameters = Shapes(model->parameters());
  int64_t count = 0;
  for (const NamedTensor& named : model->parameters()) count += named.tensor.numel();
  EXPECT_EQ(parameters.size(), 62u);
  EXPECT_EQ(count, 11'180'103);  // 11,689,512 with 1000 classes, each of which takes 513.
  EXPECT_EQ(model->buffers().size(), 60u);
  EXPECT_EQ(model->parameters()[0].name, "conv1.weight");
  EXPECT_EQ(parameters.at("conv1.weight"), (std::vector<int64_t>{64, 3, 7, 7}));
  EXPECT_EQ(parameters.at("layer2.0.downsample.0.weight"), (std::vector<int64_t>{128, 64, 1, 1}));
  EXPECT_EQ(parameters.at("layer4.1.bn2.bias"), (std::vector<int64_t>{512}));
  EXPECT_EQ(parameters.at("fc.weight"), (std::vector<int64_t>{7, 512}));
  EXPECT_EQ(parameters.count("layer1.0.downsample.0.weight"), 0u);
}

TEST(ModelTest, ConvolutionsStartWithTheVarianceOfTheirFanOut) {
  const std::unique_ptr<Model> model = MakeResNet(0);
  const at::Tensor weight = Find(model->parameters(), "layer3.1.conv2.weight");
  EXPECT_NEAR(weight.std().item<double>() / std::sqrt(2.0 / (256 * 9)), 1, 0.01);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 1e-3);
}

TEST(ModelTest, WeightsDependOnTheSeedOnly) {
  const auto name = "layer1.0.conv1.weight";
  const at::Tensor first = Find(MakeResNet(1)->parameters(), name);
  EXPECT_TRUE(first.equal(Find(MakeResNet(1)->parameters(), name)));
  EXPECT_FALSE(first.equal(Find(MakeResNet(2)->parameters(), name)));
}

TEST(ModelTest, OnlyTrainingMovesTheRunningStatistics) {
  const std::unique_ptr<Classifier> model = MakeResNet18(kFormat, false, at::kCPU);
  const at::Tensor images = at::randn({2, 3, 32, 32});
  const at::Tensor count = Find(model->buffers(), "layer4.1.bn2.num_batches_tracked");
  const at::Tensor mean = Find(model->buffers(), "bn1.running_mean");
  model->SetTraining(false);
  EXPECT_EQ(model->Forward(images).sizes().vec(), (std::vector<int64_t>{2, 7}));
  EXPECT_EQ(count.item<int64_t>(), 0);
  EXPECT_EQ(mean.abs().sum().item<float>(), 0);
  model->SetTraining(true);
  model->Forward(images);
  EXPECT_EQ(count.item<int64_t>(), 1);
  EXPECT_GT(mean.abs().sum().item<float>(), 0);
}

TEST(ModelTest, ResNet18TrainsWithBfloat16Weights) {
  const std::unique_ptr<Model> model = MakeResNet(0);
  for (const NamedTensor& one : model->parameters()) {
    one.tensor.set_data(one.tensor.detach().to(at::kBFloat16));
  }
  Batch batch;
  batch.inputs = at::randn({4, 3, 32, 32});
  batch.targets = at::zeros({4}, at::kLong);
  at::Tensor loss;
  {
    const Autocast autocast(true, at::kCPU);
    loss = model->Loss(batch);
  }
  loss.backward();
  for (const NamedTensor& one : model->parameters()) {
    EXPECT_EQ(one.tensor.grad().scalar_type(), at::kBFloat16) << one.name;
    EXPECT_TRUE(one.tensor.grad().isfinite().all().item<bool>()) << one.name;
  }
  const at::Tensor mean = Find(model->buffers(), "bn1.running_mean");
  EXPECT_EQ(mean.scalar_type(), at::kFloat);
  EXPECT_GT(mean.abs().sum().item<double>(), 0);
}

TEST(ModelTest, MlpHasOneLayerMoreThanHiddenWidths) {
  const std::unique_ptr<Classifier> model = MakeMlp({1, 2, 3, 4}, {5, 6}, at::kCPU);
  const auto parameters = Shapes(model->parameters());
  EXPECT_EQ(parameters.size(), 6u);
  EXPECT_EQ(parameters.at("layers.0.weight"), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(parameters.at("layers.1.weight"), (std::vector<int64_t>{6, 5}));
  EXPECT_EQ(parameters.at("layers.2.bias"), (std::vector<int64_t>{4}));
  EXPECT_EQ(model->Forward(at::randn({9, 1, 2, 3})).sizes().vec(), (std::vector<int64_t>{9, 4}));
}

TEST(ModelTest, LossIsTheMeanAndEvaluateTheSumOverTheTargets) {
  const std::unique_ptr<Classifier> model = MakeMlp({1, 2, 3, 4}, {5}, at::kCPU);
  Batch batch;
  batch.inputs = at::randn({6, 1, 2, 3});
  const at::Tensor best = model->Forward(batch.inputs).argmax(1);
  batch.targets = best.clone();
  batch.targets[2].fill_((best[2].item<int64_t>() + 1) % 4);
  const at::Tensor loss = model->Loss(batch);
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_TRUE(loss.requires_grad());
  const Score score = model->Evaluate(batch);
  EXPECT_NEAR(score.loss / 6, loss.item<double>(), 1e-6);
  EXPECT_EQ(score.correct, 5);
  EXPECT_EQ(score.predictions, 6);
}

TEST(ModelTest, FlopsCountTheMultiplyAddsOfLinearLayersAndConvolutions) {
  EXPECT_EQ(MakeMlp({1, 2, 3, 4}, {5, 6}, at::kCPU)->FlopsPerSample().matrices,
            6 * (6 * 5 + 5 * 6 + 6 * 4));
  // torchvision states 1.814 G multiply-adds for 224x224.
  const Flops flops = MakeResNet18({3, 224, 224, 1000}, false, at::kCPU)->FlopsPerSample();
  EXPECT_NEAR(flops.convolutions / 6 * 1e-9, 1.814, 0.0005);
}

TEST(ModelTest, ResNet18NormalisesOverTheActiveRanksIfItShall) {
  TrainerConfig ranks;
  ranks.member.world_size = 2;
  ranks.startup_timeout = absl::Seconds(20);
  const auto make = [](bool sync_batchnorm) {
    at::manual_seed(1);
    return MakeResNet18(kFormat, sync_batchnorm, at::kCPU);
  };
  at::manual_seed(2);
  const at::Tensor images = at::randn({6, 3, 32, 32});
  const std::unique_ptr<Classifier> one = make(false);
  const at::Tensor expected = one->Forward(images);
  const at::Tensor expected_mean = Find(one->buffers(), "layer4.1.bn2.running_mean");
  const std::unique_ptr<Classifier> together[2] = {make(true), make(true)};
  const std::unique_ptr<Classifier> apart[2] = {make(false), make(false)};
  RunRanks(ranks, [&](const TrainerConfig& config, Groups& groups) {
    const int rank = config.rank();
    const at::Tensor own = images.narrow(0, 3 * rank, 3);
    together[rank]->SetActiveGroup(&groups.all());
    EXPECT_TRUE(at::allclose(together[rank]->Forward(own), expected.narrow(0, 3 * rank, 3),
                             /*rtol=*/1e-3, /*atol=*/1e-4));
    EXPECT_TRUE(at::allclose(Find(together[rank]->buffers(), "layer4.1.bn2.running_mean"),
                             expected_mean, 1e-3, 1e-5));
    apart[rank]->SetActiveGroup(&groups.all());
    EXPECT_FALSE(
        at::allclose(apart[rank]->Forward(own), expected.narrow(0, 3 * rank, 3), 1e-3, 1e-4));
  });
}

// Otherwise the running variance would silently become NaN.
TEST(ModelTest, ResNet18RefusesToNormaliseOverOneValue) {
  const std::unique_ptr<Classifier> model = MakeResNet18(kFormat, false, at::kCPU);
  EXPECT_EQ(model->CheckBatch(1, 8).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(model->CheckBatch(2, 1).ok());
  EXPECT_THROW(model->Forward(at::randn({1, 3, 32, 32})), c10::ValueError);
  for (const NamedTensor& buffer : model->buffers()) {
    EXPECT_FALSE(buffer.tensor.isnan().any().item<bool>()) << buffer.name;
  }
  model->SetTraining(false);
  model->Forward(at::randn({1, 3, 32, 32}));

  const std::unique_ptr<Classifier> large = MakeResNet18({3, 64, 64, 10}, false, at::kCPU);
  EXPECT_TRUE(large->CheckBatch(1, 1).ok());
  large->Forward(at::randn({1, 3, 64, 64}));
  const std::unique_ptr<Classifier> sync = MakeResNet18(kFormat, true, at::kCPU);
  EXPECT_TRUE(sync->CheckBatch(1, 2).ok());
  EXPECT_FALSE(sync->CheckBatch(1, 1).ok());
}

TEST(ModelTest, ImageModelsRefuseTokens) {
  SampleFormat tokens;
  tokens.sequence_length = 8;
  ModelConfig config;
  for (const auto kind : {ModelConfig::Kind::kResNet18, ModelConfig::Kind::kMlp}) {
    config.kind = kind;
    const absl::Status status = MakeModel(config, tokens, 0, at::kCPU).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(status.message()),
        testing::AllOf(testing::HasSubstr("model.kind: "), testing::HasSubstr("needs images"),
                       testing::HasSubstr("data.train holds tokens")));
  }
}

}  // namespace
}  // namespace paceline
