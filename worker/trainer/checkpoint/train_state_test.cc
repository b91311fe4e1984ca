#include "worker/trainer/checkpoint/train_state.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class TestModel : public Model {
 public:
  TestModel() : Model(at::kCPU) {
    AddParameter("weight", at::full({6, 2}, 1.0));
    AddParameter("scale", at::full({}, 2.0));
    AddBuffer("mean", at::full({3}, 3.0));
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

std::vector<StateTensor> State(const TrainerConfig& config) {
  static TestModel* const model = new TestModel();
  OptimizerConfig adamw;
  adamw.kind = OptimizerConfig::Kind::kAdamW;
  const auto optimizer = MakeOptimizer(adamw, TensorsOf(model->parameters()));
  return CollectState(config, *model, *optimizer, /*attachments=*/nullptr);
}

TrainerConfig Ranks(int ranks, StrategyConfig::Kind kind) {
  TrainerConfig config;
  config.member.world_size = ranks;
  config.strategy.kind = kind;
  return config;
}

std::vector<std::string> OwnNames(const TrainerConfig& config) {
  std::vector<std::string> names;
  for (const StateTensor& one : State(config)) {
    if (one.own) names.push_back(one.name);
  }
  return names;
}

TEST(TrainStateTest, WhatRanksHaveForThemselvesDependsOnTheStrategy) {
  using Kind = StrategyConfig::Kind;
  EXPECT_THAT(OwnNames(Ranks(1, Kind::kDdp)), IsEmpty());
  EXPECT_THAT(OwnNames(Ranks(2, Kind::kDdp)), ElementsAre("model/mean", "rng/cpu"));
  TrainerConfig averaged = Ranks(2, Kind::kHsgd);
  averaged.strategy.average_optimizer_state = true;
  EXPECT_THAT(OwnNames(averaged), ElementsAre("optimizer/step", "model/mean", "rng/cpu"));
  EXPECT_THAT(OwnNames(Ranks(2, Kind::kHsgd)), Contains("optimizer/exp_avg_sq/weight"));
}

// Whoever saves has the same weights as all others.
TEST(TrainStateTest, ACompensationIsAsEqualAsTheParameters) {
  TestModel model;
  for (const NamedTensor& one : model.parameters()) {
    one.tensor.set_data(one.tensor.detach().to(at::kBFloat16));
  }
  OptimizerConfig compensated;
  compensated.compensated = true;
  compensated.momentum = 0.9;
  const auto optimizer = MakeOptimizer(compensated, TensorsOf(model.parameters()));
  std::map<std::string, bool> own;
  for (const StateTensor& one :
       CollectState(Ranks(2, StrategyConfig::Kind::kHsgd), model, *optimizer, nullptr)) {
    own[one.name] = one.own;
  }
  EXPECT_TRUE(own.at("optimizer/momentum_buffer/weight"));
  EXPECT_FALSE(own.at("optimizer/compensation/weight"));
  EXPECT_FALSE(own.at("optimizer/compensation/scale"));
}

TEST(TrainStateTest, WhatTheForwardPassChangesIsCopiedAtOnce) {
  const StatePart part = PartOfRank(State(Ranks(1, StrategyConfig::Kind::kDdp)), 0, 1);
  std::vector<std::string> names;
  for (const ShardEntry& entry : part.at_once) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("model/mean", "rng/cpu"));
}

class TiedModel : public Model {
 public:
  TiedModel() : Model(at::kCPU) {
    AddParameter("head", AddParameter("embedding", at::full({6, 2}, 1.0)));
    AddBuffer("seen", AddBuffer("count", at::full({}, 3.0)));
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

TEST(TrainStateTest, ATiedTensorIsSavedByEachNameAndHasOneState) {
  const TiedModel model;
  OptimizerConfig adamw;
  adamw.kind = OptimizerConfig::Kind::kAdamW;
  const auto optimizer = MakeOptimizer(adamw, TensorsOf(model.parameters()));
  std::vector<std::string> names;
  std::vector<std::string> again;
  for (const StateTensor& one :
       CollectState(Ranks(2, StrategyConfig::Kind::kDdp), model, *optimizer,
                    /*attachments=*/nullptr)) {
    (one.again ? again : names).push_back(one.name);
  }
  EXPECT_THAT(names, ElementsAre("model/embedding", "optimizer/exp_avg/embedding",
                                 "optimizer/exp_avg_sq/embedding", "optimizer/step", "model/count",
                                 "rng/cpu"));
  EXPECT_THAT(again, ElementsAre("model/head", "model/seen"));
}

TEST(TrainStateTest, WhereParametersMayBeUnusedEachHasItsOwnCount) {
  TrainerConfig config = Ranks(1, StrategyConfig::Kind::kDdp);
  config.model.unused_parameters = true;
  std::vector<std::string> names;
  for (const StateTensor& one : State(config)) names.push_back(one.name);
  EXPECT_THAT(names, Contains("optimizer/step/weight"));
  EXPECT_THAT(names, Contains("optimizer/step/scale"));
  EXPECT_THAT(names, Not(Contains("optimizer/step")));
}

TEST(TrainStateTest, TheRanksTogetherWriteEverythingOnce) {
  const std::vector<StateTensor> state = State(Ranks(3, StrategyConfig::Kind::kDdp));
  std::map<std::string, int64_t> rows;
  for (int rank = 0; rank < 3; ++rank) {
    const StatePart part = PartOfRank(state, rank, 3);
    for (const auto* entries : {&part.entries, &part.at_once}) {
      for (const ShardEntry& entry : *entries) {
        EXPECT_EQ(entry.first_row, rows[entry.name]) << entry.name;
        rows[entry.name] += entry.rows.dim() == 0 ? 1 : entry.rows.size(0);
      }
    }
  }
  EXPECT_EQ(rows.at("model/weight"), 6);
  EXPECT_EQ(rows.at("model/scale"), 1);
  EXPECT_EQ(rows.at("optimizer/exp_avg/weight"), 6);
  EXPECT_EQ(rows.at("model/mean"), 3) << "rank 0's";
  EXPECT_EQ(rows.at("rank1/model/mean"), 3);
  EXPECT_EQ(rows.at("rank2/model/mean"), 3);
  EXPECT_EQ(rows.count("rank0/model/mean"), 0u);
}

TEST(TrainStateTest, EntriesShareTheMemoryOfTheOriginals) {
  const std::vector<StateTensor> state = State(Ranks(1, StrategyConfig::Kind::kDdp));
  const StatePart part = PartOfRank(state, 0, 1);
  EXPECT_EQ(part.entries.front().name, "model/weight");
  EXPECT_EQ(part.entries.front().rows.const_data_ptr(), state.front().tensor.const_data_ptr());
}

TEST(TrainStateTest, RandomNumbersGoOnWhereTheyWere) {
  const RandomNumbers before(at::kCPU);
  const float drawn = at::full({}, 0.0).uniform_().item<float>();
  before.Restore();
  EXPECT_EQ(at::full({}, 0.0).uniform_().item<float>(), drawn);
}

}  // namespace
}  // namespace paceline
