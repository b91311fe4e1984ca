#include "worker/trainer/comm/batch_norm_groups.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

// A model whose running statistics are the number of its last pass.
class OneNumber : public ModelTensors {
 public:
  OneNumber() : ModelTensors(at::kCPU), number_(AddBuffer("number", at::zeros({2}))) {}

  void SetActiveGroup(Group* group) override { group_ = group; }

  // Null: by itself.
  Group* group() const { return group_; }
  void Forward(double pass) const { number_.fill_(pass); }
  double number() const { return number_[1].item<double>(); }

 private:
  at::Tensor number_;
  Group* group_ = nullptr;
};

std::vector<int> First(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

TEST(BatchNormGroupsTest, RanksWithSamplesAreTogetherAndTheOthersGetTheirStatistics) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    OneNumber model;
    BatchNormGroups batch_norm(groups, config.rank(), model);
    double pass = 0;
    for (const int active : {4, 3, 4, 2, 3, 1, 2, 4}) {
      batch_norm.BeginPass(&groups.all(), active);
      ++pass;
      if (config.rank() < active && active > 1) {
        ASSERT_NE(model.group(), nullptr) << active;
        EXPECT_EQ(model.group()->ranks(), First(active));
        const at::Tensor sum = at::zeros({1}).add(1);
        model.group()->Sum(sum);
        EXPECT_EQ(sum.item<double>(), active);
      } else {
        EXPECT_EQ(model.group(), nullptr) << active;
      }
      if (config.rank() < active) model.Forward(pass);
      EXPECT_EQ(model.number(), pass) << active << " ranks with samples";
      batch_norm.EndForward();
      EXPECT_EQ(model.number(), pass);
    }
  });
}

TEST(BatchNormGroupsTest, RanksThatWereTogetherAreNotConnectedAgain) {
  RunRanks(Ranks(3), [](const TrainerConfig& config, Groups& groups) {
    OneNumber model;
    BatchNormGroups batch_norm(groups, config.rank(), model);
    const auto group_of = [&](int active) {
      batch_norm.BeginPass(&groups.all(), active);
      Group* const group = model.group();
      batch_norm.EndForward();
      return group;
    };
    Group* const two = group_of(2);
    EXPECT_EQ(group_of(3), &groups.all());
    EXPECT_EQ(group_of(2), two);
  });
}

TEST(BatchNormGroupsTest, OnlyRanksThatShareGradientsAreTogether) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    const int rank = config.rank();
    const std::vector<int> half = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    const std::shared_ptr<Group> gradients = groups.Make(half, "gradients", 1);
    OneNumber model;
    BatchNormGroups batch_norm(groups, rank, model);
    batch_norm.BeginPass(gradients.get(), 4);
    EXPECT_EQ(model.group(), gradients.get());
    batch_norm.EndForward();

    // Rank 2 is the only one of its half that has samples; rank 3 gets its statistics.
    batch_norm.BeginPass(gradients.get(), 3);
    EXPECT_EQ(model.group(), rank < 2 ? gradients.get() : nullptr);
    if (rank == 2) model.Forward(7);
    batch_norm.EndForward();
    EXPECT_EQ(model.number(), rank < 2 ? 0 : 7);

    // Nobody in the second half has samples.
    batch_norm.BeginPass(gradients.get(), 2);
    EXPECT_EQ(model.group(), rank < 2 ? gradients.get() : nullptr);
    batch_norm.EndForward();

    batch_norm.BeginPass(nullptr, 4);
    EXPECT_EQ(model.group(), nullptr);
    batch_norm.EndForward();
  });
}

}  // namespace
}  // namespace paceline
