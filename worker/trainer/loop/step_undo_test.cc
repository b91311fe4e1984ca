#include "worker/trainer/loop/step_undo.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

class TinyModel : public Model {
 public:
  TinyModel() : Model(at::kCPU) {
    AddParameter("weight", at::ones({2}));
    AddBuffer("statistic", at::zeros({3}));
    AddBuffer("table", at::ones({3}), /*frozen=*/true);
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return parameters()[0].tensor.sum(); }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

TEST(StepUndoTest, PutsBackBuffersAndRandomNumbersAndDropsGradients) {
  TinyModel model;
  StepUndo undo(model);
  undo.Keep();
  const at::Tensor drawn = at::rand({4});
  at::Tensor(model.buffers()[0].tensor).add_(5);
  model.Loss({}).backward();
  ASSERT_TRUE(model.parameters()[0].tensor.grad().defined());

  undo.Undo();
  EXPECT_TRUE(model.buffers()[0].tensor.equal(at::zeros({3})));
  EXPECT_FALSE(model.parameters()[0].tensor.grad().defined());
  EXPECT_TRUE(at::rand({4}).equal(drawn));
}

TEST(StepUndoTest, KeepsTheLatestState) {
  TinyModel model;
  StepUndo undo(model);
  undo.Keep();
  at::Tensor(model.buffers()[0].tensor).add_(1);
  undo.Keep();
  at::Tensor(model.buffers()[0].tensor).add_(1);
  undo.Undo();
  EXPECT_TRUE(model.buffers()[0].tensor.equal(at::ones({3})));
}

}  // namespace
}  // namespace paceline
