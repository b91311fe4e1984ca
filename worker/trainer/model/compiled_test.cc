// A compiled model in the trainer: that of testing/compiled_net.py.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kNet[] = "worker/trainer/model/testing/compiled_net.pt2";
constexpr ImageFormat kFormat{1, 8, 8, 10};

absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& file,
                                            const ImageFormat& image = kFormat) {
  SampleFormat format;
  format.image = image;
  ModelConfig config;
  config.kind = ModelConfig::Kind::kCompiled;
  config.compiled_file = file;
  return MakeModel(config, format, 0, at::kCPU);
}

Batch Some(int64_t samples) {
  at::manual_seed(5);
  Batch batch;
  batch.inputs = at::rand({4, 1, 8, 8}).mul(2).sub(1).narrow(0, 0, samples);
  batch.targets = at::tensor(std::vector<int64_t>{1, 0, 7, 7}, at::kLong).narrow(0, 0, samples);
  batch.samples = samples;
  return batch;
}

void ExpectError(const std::string& file, const std::string& what) {
  const absl::Status status = Load(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("model.file: "), HasSubstr(what)));
}

const NamedTensor* Find(const std::vector<NamedTensor>& list, const std::string& name) {
  for (const NamedTensor& one : list) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

TEST(CompiledTest, StateHasTheModulesNames) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::string> names;
  for (const NamedTensor& one : (*model)->parameters()) names.push_back(one.name);
  EXPECT_THAT(names, testing::ElementsAre("one", "two", "first.weight", "first.bias", "norm.weight",
                                          "norm.bias", "mix.weight", "last.weight", "last.bias"));
  ASSERT_EQ((*model)->tied().size(), 1u);
  EXPECT_EQ((*model)->tied()[0].name, "same.weight");
  EXPECT_EQ((*model)->tied()[0].first, "mix.weight");
  ASSERT_EQ((*model)->buffers().size(), 5u);
  ASSERT_NE(Find((*model)->buffers(), "frozen"), nullptr);
  EXPECT_TRUE(Find((*model)->buffers(), "frozen")->frozen);
  EXPECT_EQ(Find((*model)->buffers(), "frozen")->tensor.max().item<float>(), 2);
  ASSERT_NE(Find((*model)->buffers(), "norm.running_mean"), nullptr);
  EXPECT_FALSE(Find((*model)->buffers(), "norm.running_mean")->frozen);
  // 64 x 16, twice 16 x 16 and 16 x 10 products, of which the first needs no gradient of its input.
  EXPECT_EQ((*model)->counted_flops().total(), 4 * 64 * 16 + 2 * 6 * 16 * 16 + 6 * 16 * 10);
}

TEST(CompiledTest, TheLossFallsAsTheGradientSays) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  const Batch batch = Some(4);
  const at::Tensor loss = (*model)->Loss(batch);
  ASSERT_TRUE(loss.requires_grad());
  loss.backward();
  double squares = 0;
  for (const NamedTensor& one : (*model)->parameters()) {
    ASSERT_TRUE(one.tensor.grad().defined()) << one.name;
    squares += one.tensor.grad().square().sum().item<double>();
  }
  ASSERT_GT(squares, 0);
  const double step = 2e-4 / std::sqrt(squares);
  double losses[2];
  for (int side = 0; side < 2; ++side) {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& one : (*model)->parameters()) {
      one.tensor.add_(one.tensor.grad(), side == 0 ? step : -2 * step);
    }
    losses[side] = (*model)->Loss(batch).item<double>();
  }
  EXPECT_NEAR((losses[0] - losses[1]) / (2 * step * squares), 1, 0.03);
}

TEST(CompiledTest, GradientsAreThoseOfWhatIsMadeOfTheLoss) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_NE(Find((*model)->parameters(), "first.weight"), nullptr);
  const at::Tensor weight = Find((*model)->parameters(), "first.weight")->tensor;
  (*model)->Loss(Some(4)).backward();
  const at::Tensor whole = weight.grad().clone();
  weight.mutable_grad().reset();
  (*model)->Loss(Some(4)).mul(0.5).backward();
  EXPECT_TRUE(weight.grad().equal(whole.mul(0.5)));
  (*model)->Loss(Some(4)).mul(0.5).backward();
  EXPECT_TRUE(weight.grad().equal(whole)) << "gradients of passes are added";
}

TEST(CompiledTest, EqualGradientsAreTwoTensors) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ((*model)->parameters()[1].name, "two");
  const at::Tensor one = (*model)->parameters()[0].tensor;
  const at::Tensor two = (*model)->parameters()[1].tensor;
  (*model)->Loss(Some(4)).backward();
  const at::Tensor whole = one.grad().clone();
  ASSERT_GT(whole.abs().sum().item<float>(), 0);
  EXPECT_TRUE(two.grad().equal(whole));
  EXPECT_FALSE(two.grad().is_alias_of(one.grad()));
  one.mutable_grad().reset();
  two.mutable_grad().reset();
  (*model)->Loss(Some(4)).mul(0.5).backward();
  EXPECT_TRUE(one.grad().equal(whole.mul(0.5)));
  EXPECT_TRUE(two.grad().equal(whole.mul(0.5)));
}

TEST(CompiledTest, TorchAddsInOneOrder) {
  ASSERT_TRUE(Load(kNet).ok());
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(at::globalContext().deterministicFillUninitializedMemory());
}

TEST(CompiledTest, NoFilesStayOfWhatWasUnpacked) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  std::ifstream maps("/proc/self/maps");
  int mapped = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/data/aotinductor/") == line.npos) continue;
    ++mapped;
    EXPECT_THAT(line, testing::EndsWith(" (deleted)"));
  }
  EXPECT_GT(mapped, 0);
}

TEST(CompiledTest, OnlyTrainingChangesBuffers) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  const at::Tensor count = Find((*model)->buffers(), "norm.num_batches_tracked")->tensor;
  const at::Tensor mean = Find((*model)->buffers(), "norm.running_mean")->tensor;
  (*model)->SetTraining(false);
  (*model)->Evaluate(Some(4));
  EXPECT_EQ(count.item<int64_t>(), 0);
  EXPECT_EQ(mean.abs().sum().item<float>(), 0);
  (*model)->SetTraining(true);
  (*model)->Loss(Some(4));
  EXPECT_EQ(count.item<int64_t>(), 1);
  EXPECT_GT(mean.abs().sum().item<float>(), 0);
}

TEST(CompiledTest, WhatIsLeftOverIsEvaluatedToo) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  const Score all = (*model)->Evaluate(Some(4));
  const Score three = (*model)->Evaluate(Some(3));
  Batch last = Some(4);
  last.inputs = last.inputs.narrow(0, 3, 1);
  last.targets = last.targets.narrow(0, 3, 1);
  last.samples = 1;
  const Score one = (*model)->Evaluate(last);
  EXPECT_EQ(three.predictions, 3);
  EXPECT_LT(three.correct, 0);
  EXPECT_NEAR(three.loss + one.loss, all.loss, 1e-4);
  EXPECT_GT(one.loss, 0);
}

TEST(CompiledTest, ABatchOfAnotherSizeIsRefused) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Load(kNet);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->CheckBatch(4, 2).ok());
  EXPECT_THAT(std::string((*model)->CheckBatch(8, 2).message()),
              AllOf(HasSubstr("batch_per_rank: is 8"), HasSubstr("for batches of 4")));
  EXPECT_THROW((*model)->Loss(Some(3)), c10::ValueError);
  Batch wrong = Some(4);
  wrong.inputs = wrong.inputs.to(at::kDouble);
  EXPECT_THROW((*model)->Loss(wrong), c10::ValueError);
}

TEST(CompiledTest, OtherDataAreRefused) {
  const absl::Status status = Load(kNet, ImageFormat{3, 8, 8, 10}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("Float [4, 3, 8, 8]"));
}

TEST(CompiledTest, AMissingOrForeignFileIsNamed) {
  const std::string folder = testing::TempDir() + "/compiled_files";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  ExpectError(folder + "/none.pt2", "none.pt2: there is no such file");
  std::ofstream(folder + "/text.pt2") << "weights";
  ExpectError(folder + "/text.pt2", "is no package that python -m paceline.export wrote");
  std::filesystem::copy_file(kNet, folder + "/alone.pt2");
  ExpectError(folder + "/alone.pt2", "alone.safetensors: ");
}

}  // namespace
}  // namespace paceline
