#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr ImageFormat kFormat{1, 2, 2, 3};

class TorchScriptTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    file_ = testing::TempDir() + "/" + info->name() + ".pt";
    std::filesystem::remove(file_);
  }

  // Saves a module with the parameter "weight", a frozen one "offset", and the buffer "calls".
  void Save(const std::string& forward) {
    torch::jit::Module module("User");
    module.register_parameter("weight", at::full({4, 3}, 0.5).requires_grad_(true), false);
    module.register_parameter("offset", at::zeros({3}).requires_grad_(false), false);
    module.register_buffer("calls", at::zeros({1}));
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define(forward);
    module.save(file_);
  }

  absl::StatusOr<std::unique_ptr<Model>> Load() const {
    SampleFormat format;
    format.image = kFormat;
    ModelConfig config;
    config.kind = ModelConfig::Kind::kTorchScript;
    config.torchscript_file = file_;
    return MakeModel(config, format, 0, at::kCPU);
  }

  void ExpectError(const std::string& what) const {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("model.file: " + file_ + ": "), HasSubstr(what)));
  }

  std::string file_;
};

constexpr char kGood[] = R"(
def forward(self, inputs, targets):
    if self.training:
        self.calls.add_(1)
    scores = inputs.flatten(1).matmul(self.weight) + self.offset
    return torch.cross_entropy_loss(scores, targets)
)";

TEST_F(TorchScriptTest, TrainsTheParametersAndKeepsTheRest) {
  Save(kGood);
  const absl::StatusOr<std::unique_ptr<Model>> model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ((*model)->parameters().size(), 1u);
  EXPECT_EQ((*model)->parameters()[0].name, "weight");
  ASSERT_EQ((*model)->buffers().size(), 2u);
  EXPECT_EQ((*model)->buffers()[0].name, "offset");
  const at::Tensor calls = (*model)->buffers()[1].tensor;
  EXPECT_EQ((*model)->buffers()[1].name, "calls");
  EXPECT_EQ(calls.item<float>(), 0);  // The trial left no trace.
  EXPECT_EQ((*model)->FlopsPerSample().total(), 0) << "there is no formula";

  Batch batch;
  batch.inputs = at::ones({5, 1, 2, 2});
  batch.targets = at::zeros({5}, at::kLong);
  batch.samples = 5;
  const at::Tensor loss = (*model)->Loss(batch);
  EXPECT_NEAR(loss.item<double>(), std::log(3.0), 1e-6);
  loss.backward();
  EXPECT_GT((*model)->parameters()[0].tensor.grad().abs().sum().item<float>(), 0);
  EXPECT_EQ(calls.item<float>(), 1);

  // Changes of the registered tensor are changes of the module.
  {
    at::NoGradGuard no_grad;
    (*model)->parameters()[0].tensor.select(1, 0).add_(1);
  }
  (*model)->SetTraining(false);
  const Score score = (*model)->Evaluate(batch);
  EXPECT_NEAR(score.loss / 5, std::log(1 + 2 * std::exp(-4.0)), 1e-6);
  EXPECT_LT(score.correct, 0);
  EXPECT_EQ(score.predictions, 5);
  EXPECT_EQ(calls.item<float>(), 1);
}

// The head is the embedding: one tensor with two names, in separate modules.
TEST_F(TorchScriptTest, ATiedParameterIsTrainedOnce) {
  const at::Tensor weight = at::full({3, 4}, 0.5).requires_grad_(true);
  torch::jit::Module module("Tied");
  for (const char* const name : {"embedding", "head"}) {
    torch::jit::Module part(name);
    part.register_parameter("weight", weight, false);
    module.register_module(name, part);
  }
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(R"(
def forward(self, inputs, targets):
    x = inputs.flatten(1).matmul(self.embedding.weight.t())
    return torch.cross_entropy_loss(x.matmul(self.head.weight).matmul(self.head.weight.t()), targets)
)");
  module.save(file_);
  const absl::StatusOr<std::unique_ptr<Model>> model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ((*model)->parameters().size(), 1u);
  EXPECT_EQ((*model)->parameters()[0].name, "embedding.weight");
  ASSERT_EQ((*model)->tied().size(), 1u);
  EXPECT_EQ((*model)->tied()[0].name, "head.weight");
  EXPECT_EQ((*model)->tied()[0].first, "embedding.weight");
}

// Two parameters that are views of one memory would each be updated by their own gradient.
TEST_F(TorchScriptTest, ParametersThatOverlapAreRefused) {
  const at::Tensor memory = at::full({24}, 0.5);
  torch::jit::Module module("Views");
  module.register_parameter("a", memory.narrow(0, 0, 12).view({4, 3}).requires_grad_(true), false);
  module.register_parameter("b", memory.narrow(0, 6, 12).view({4, 3}).requires_grad_(true), false);
  module.define(
      "def forward(self, inputs, targets):\n"
      "    return torch.cross_entropy_loss(inputs.flatten(1).matmul(self.a + self.b), targets)\n");
  module.save(file_);
  ExpectError("the parameters a and b are different ones in the same memory");
}

TEST_F(TorchScriptTest, AMissingFileIsNamed) { ExpectError("there is no such file"); }

TEST_F(TorchScriptTest, AFileThatIsNoModuleIsNamed) {
  std::ofstream(file_) << "weights";
  ExpectError("is not a TorchScript module");
}

TEST_F(TorchScriptTest, AModuleWithoutForwardIsRefused) {
  Save("def loss(self, inputs, targets):\n    return self.weight.sum()\n");
  ExpectError("the module has no method forward(inputs, targets)");
}

TEST_F(TorchScriptTest, ForwardMustTakeTheTargetsToo) {
  Save("def forward(self, inputs):\n    return self.weight.sum()\n");
  ExpectError("forward takes 1 arguments; it must take two");
}

TEST_F(TorchScriptTest, ScoresAreNoLoss) {
  Save("def forward(self, inputs, targets):\n    return inputs.flatten(1).matmul(self.weight)\n");
  ExpectError("returned a tensor Float [2, 3]; it must return the mean loss of the batch");
}

TEST_F(TorchScriptTest, AnythingButATensorIsNoLoss) {
  Save("def forward(self, inputs, targets):\n    return 0.5\n");
  ExpectError("returned a value of type float");
}

TEST_F(TorchScriptTest, ALossWithoutGradientsIsRefused) {
  Save("def forward(self, inputs, targets):\n    return self.weight.sum().detach()\n");
  ExpectError("returned a tensor Float [] that requires no gradients");
}

TEST_F(TorchScriptTest, AModuleThatFailsOnTheDataIsRefusedWithItsReason) {
  Save("def forward(self, inputs, targets):\n    return inputs.matmul(self.weight).sum()\n");
  ExpectError("forward failed for inputs Float [2, 1, 2, 2] and targets Long [2]: ");
}

}  // namespace
}  // namespace paceline
