#include "worker/trainer/generation/state_transfer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/optimizer.h"

namespace paceline {
namespace {

// Scalars, odd sizes, various types, a non-contiguous tensor, and one too large for packing.
std::vector<at::Tensor> State() {
  return {at::full({}, 3.5, at::kFloat),           at::full({7}, 9, at::kByte),
          at::full({3, 5}, 2.25, at::kDouble).t(), at::full({0}, 1, at::kFloat),
          at::full({600, 600}, -1.5, at::kFloat),  at::full({1}, 1LL << 40, at::kLong)};
}

TEST(StateTransferTest, TheReceiverHasWhatTheSenderHas) {
  TrainerConfig config;
  config.member.world_size = 3;
  config.startup_timeout = absl::Seconds(20);
  for (const bool in_place : {false, true}) {
    RunRanks(config, [&](const TrainerConfig& own, Groups& groups) {
      const std::vector<at::Tensor> expected = State();
      if (own.rank() == 2) SendTensors(groups.all(), expected, at::kCPU, 0);
      if (own.rank() != 0) return;
      std::vector<at::Tensor> received;
      for (const at::Tensor& tensor : expected) received.push_back(at::zeros_like(tensor));
      ReceiveTensors(groups.all(), received, at::kCPU, 2, in_place);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(received[i].equal(expected[i])) << i;
      }
    });
  }
}

// Its schema says how many tensors there are; a newcomer has none. The last one is large, and its
// layout is not that of the newcomer's.
class SomeAttached : public Attachments {
 public:
  std::string Names() const override { return "some"; }
  Attachment Take(Scope scope) const override {
    if (scope == Scope::kOwn) return {"nothing", {}};
    std::vector<at::Tensor> tensors = State();
    tensors.push_back(at::full({600, 700}, 4.5, at::kFloat).t());
    return {"seven", tensors};
  }
  std::vector<at::Tensor> Allocate(Scope /*scope*/, const std::string& schema) const override {
    std::vector<at::Tensor> tensors;
    if (schema == "nothing") return tensors;
    for (const at::Tensor& one : Take(Scope::kShared).tensors) {
      tensors.push_back(at::empty(one.sizes(), one.options()));
    }
    return tensors;
  }
  void Put(Scope /*scope*/, const Attachment& /*attachment*/) override {}
  void Keep() override {}
  void Undo() override {}
};

TEST(StateTransferTest, WhatIsAttachedComesWithItsSchema) {
  TrainerConfig config;
  config.member.world_size = 2;
  config.startup_timeout = absl::Seconds(20);
  RunRanks(config, [&](const TrainerConfig& own, Groups& groups) {
    const SomeAttached attached;
    for (const auto scope : {Attachments::Scope::kShared, Attachments::Scope::kOwn}) {
      if (own.rank() == 0) {
        SendAttachment(groups.all(), attached, scope, at::kCPU, 1);
        continue;
      }
      const Attachment received =
          ReceiveAttachment(groups.all(), attached, scope, at::kCPU, /*from=*/0);
      const Attachment expected = attached.Take(scope);
      EXPECT_EQ(received.schema, expected.schema);
      ASSERT_EQ(received.tensors.size(), expected.tensors.size());
      for (size_t i = 0; i < expected.tensors.size(); ++i) {
        EXPECT_TRUE(received.tensors[i].equal(expected.tensors[i])) << i;
      }
    }
  });
}

// Takes over what it gets.
class Taking : public SomeAttached {
 public:
  explicit Taking(std::string schema) : schema_(std::move(schema)) {}
  Attachment Take(Scope scope) const override {
    return {schema_, SomeAttached::Take(scope).tensors};
  }
  void Put(Scope scope, const Attachment& attachment) override {
    EXPECT_EQ(scope, Scope::kShared);
    EXPECT_EQ(attachment.tensors.size(), Take(scope).tensors.size());
    schema_ = attachment.schema;
  }
  const std::string& schema() const { return schema_; }

 private:
  std::string schema_;
};

TEST(StateTransferTest, AllTakeTheFirstOnesOptimizer) {
  TrainerConfig config;
  config.member.world_size = 3;
  config.startup_timeout = absl::Seconds(20);
  config.optimizer.momentum = 0.9;  // It has a slot.
  RunRanks(config, [&](const TrainerConfig& own, Groups& groups) {
    const at::Tensor parameter = at::full({3}, 1.0F).requires_grad_();
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(own.optimizer, {parameter});
    const at::Tensor slot = TensorsOf(optimizer->Slots()).at(0);
    at::Tensor(slot).fill_(own.rank() + 5);
    Taking attached(own.rank() == 0 ? "first" : "other");
    CopyOptimizerFromFirst(groups.all(), *optimizer, &attached, at::kCPU, own.rank());
    EXPECT_EQ(attached.schema(), "first");
    EXPECT_EQ(slot[0].item<float>(), static_cast<float>(own.rank() + 5)) << "it is attached";
    CopyOptimizerFromFirst(groups.all(), *optimizer, /*attachments=*/nullptr, at::kCPU, own.rank());
    EXPECT_EQ(slot[0].item<float>(), 5);
  });
}

}  // namespace
}  // namespace paceline
