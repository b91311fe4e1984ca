#include "worker/trainer/shard/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/loop/optimizer.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using Tensors = std::vector<at::Tensor>;

struct Shape {
  const char* name;
  std::vector<int64_t> sizes;
};

// Rows that 2 and 3 ranks share unevenly; a parameter of one row leaves others none. Each shard is
// a multiple of 16 values, as wide as a processor's vectors, because the fused optimizer may round
// a value differently in what is left over.
const std::vector<Shape>& Shapes() {
  static const auto* const shapes =
      new std::vector<Shape>{{"model.embed_tokens.weight", {7, 32}},
                             {"model.layers.0.mlp.weight", {5, 16}},
                             {"model.layers.0.norm.weight", {96}},
                             {"model.layers.1.mlp.weight", {1, 32}},
                             {"model.layers.1.conv.weight", {2, 4, 8}},
                             {"model.norm.weight", {192}},
                             {"lm_head.weight", {4, 16}}};
  return *shapes;
}

Tensors RandomTensors(uint64_t seed) {
  at::manual_seed(seed);
  Tensors tensors;
  for (const Shape& shape : Shapes()) tensors.push_back(at::randn(shape.sizes));
  return tensors;
}

// Small whole numbers: their sums are exact in any order, in bfloat16 too.
Tensors WholeNumbers(uint64_t seed) {
  at::manual_seed(seed);
  Tensors tensors;
  for (const Shape& shape : Shapes()) {
    tensors.push_back(at::randint(-9, 10, shape.sizes, at::kFloat));
  }
  return tensors;
}

class Network : public ModelTensors {
 public:
  explicit Network(const Tensors& initial) : ModelTensors(at::kCPU) {
    for (size_t i = 0; i < initial.size(); ++i) AddParameter(Shapes()[i].name, initial[i].clone());
  }

  void SetGradients(const Tensors& gradients) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      const at::Tensor& parameter = parameters()[i].tensor;
      parameter.mutable_grad() = gradients[i].to(parameter.scalar_type(), /*non_blocking=*/false,
                                                 /*copy=*/true);
    }
  }
};

OptimizerConfig AdamW() {
  OptimizerConfig config;
  config.kind = OptimizerConfig::Kind::kAdamW;
  config.weight_decay = 0.1;
  return config;
}

constexpr int kSteps = 3;

// A training of `ranks` ranks: what each starts with, and its gradients.
struct Training {
  explicit Training(int ranks) {
    for (uint64_t step = 0; step < kSteps; ++step) {
      for (int rank = 0; rank < ranks; ++rank) {
        gradients[step].push_back(WholeNumbers(100 * step + static_cast<uint64_t>(rank) + 2));
      }
    }
  }

  Tensors initial = RandomTensors(1);
  std::vector<Tensors> gradients[kSteps];  // By step, then rank.
};

// The parameters after each step, with whole parameters and mean gradients on one rank.
std::vector<Tensors> TrainWhole(const Training& training) {
  Tensors parameters;
  for (const at::Tensor& tensor : training.initial) parameters.push_back(tensor.clone());
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(AdamW(), parameters);
  const at::Tensor learning_rate = MakeLearningRate(at::kCPU).fill_(0.01);
  std::vector<Tensors> after;
  for (const std::vector<Tensors>& of_ranks : training.gradients) {
    Tensors& values = after.emplace_back();
    for (size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor sum = at::zeros_like(parameters[i]);
      for (const Tensors& of_rank : of_ranks) sum.add_(of_rank[i]);
      parameters[i].mutable_grad() = sum.div_(static_cast<int64_t>(of_ranks.size()));
    }
    optimizer->Step(learning_rate, {});
    for (const at::Tensor& parameter : parameters) values.push_back(parameter.clone());
  }
  return after;
}

void ExpectShardedTrainingIsTheSame(int ranks, at::ScalarType whole_type) {
  const Training training(ranks);
  const std::vector<Tensors> expected = TrainWhole(training);
  RunRanks(Ranks(ranks), [&](const TrainerConfig& config, Groups& groups) {
    Network network(training.initial);
    ShardedParameters sharded(network, {groups.all(), config.rank(), whole_type});
    const std::unique_ptr<Optimizer> optimizer =
        MakeOptimizer(AdamW(), TensorsOf(sharded.masters()));
    const at::Tensor learning_rate = MakeLearningRate(at::kCPU).fill_(0.01);
    for (size_t step = 0; step < kSteps; ++step) {
      network.SetGradients(training.gradients[step][static_cast<size_t>(config.rank())]);
      sharded.ReduceScatter();
      optimizer->Step(learning_rate, {});
      sharded.Gather();
      for (size_t i = 0; i < expected[step].size(); ++i) {
        const NamedTensor& parameter = network.parameters()[i];
        EXPECT_FALSE(parameter.tensor.grad().defined());
        EXPECT_EQ(parameter.tensor.scalar_type(), whole_type);
        EXPECT_TRUE(parameter.tensor.equal(expected[step][i].to(whole_type)))
            << parameter.name << " after step " << step;
      }
    }
  });
}

TEST(ShardedParametersTest, StepsOnShardsAreThoseOnWholeParametersBitForBit) {
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    ExpectShardedTrainingIsTheSame(ranks, at::kFloat);
  }
}

TEST(ShardedParametersTest, WholeParametersInBfloat16AreRoundedMasters) {
  for (const int ranks : {2, 3}) {
    SCOPED_TRACE(ranks);
    ExpectShardedTrainingIsTheSame(ranks, at::kBFloat16);
  }
}

TEST(ShardedParametersTest, MastersAreTheRowsThatTorchChunkGives) {
  const Tensors initial = RandomTensors(1);
  RunRanks(Ranks(3), [&](const TrainerConfig& config, Groups& groups) {
    const Network network(initial);
    const ShardedParameters sharded(network, {groups.all(), config.rank()});
    const std::vector<NamedTensor> masters = sharded.masters();
    ASSERT_EQ(masters.size(), initial.size());
    for (size_t i = 0; i < masters.size(); ++i) {
      EXPECT_EQ(masters[i].name, Shapes()[i].name) << "the model's order";
      const Tensors chunks = initial[i].chunk(3, 0);
      const auto position = static_cast<size_t>(config.rank());
      if (position < chunks.size()) {
        EXPECT_TRUE(masters[i].tensor.equal(chunks[position])) << masters[i].name;
      } else {
        EXPECT_EQ(masters[i].tensor.numel(), 0) << masters[i].name;
      }
    }
  });
}

TEST(ShardedParametersTest, GradientsOfSeveralPassesAddUp) {
  const Tensors initial = RandomTensors(1);
  const Tensors first = WholeNumbers(2);
  const Tensors second = WholeNumbers(3);
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    Network network(initial);
    ShardedParameters sharded(network, {groups.all(), config.rank()});
    for (const Tensors& gradients : {first, second}) {
      network.SetGradients(gradients);
      sharded.ReduceScatter();
    }
    // Both ranks have the same gradients, so these are their mean.
    for (ShardUnit& unit : sharded.units()) {
      for (const ShardedTensor& tensor : unit.tensors()) {
        size_t i = 0;
        while (tensor.name != Shapes()[i].name) ++i;
        const at::Tensor sum = first[i].add(second[i]);
        EXPECT_TRUE(tensor.master.grad().equal(sum.narrow(0, tensor.rows.begin, tensor.rows.count)))
            << tensor.name;
      }
    }
  });
}

TEST(ShardedParametersTest, AReleasedUnitIsNotUsedUnseenAndComesBack) {
  const Tensors initial = RandomTensors(1);
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    Network network(initial);
    ShardedParameters sharded(network, {groups.all(), config.rank()});
    for (ShardUnit& unit : sharded.units()) unit.Release();
    for (size_t i = 0; i < initial.size(); ++i) {
      const at::Tensor& parameter = network.parameters()[i].tensor;
      EXPECT_EQ(parameter.sizes(), initial[i].sizes());
      EXPECT_EQ(parameter.storage().nbytes(), sizeof(float));
      EXPECT_TRUE(at::isnan(parameter.detach()).all().item<bool>());
    }
    sharded.Gather();
    for (size_t i = 0; i < initial.size(); ++i) {
      const at::Tensor& parameter = network.parameters()[i].tensor;
      EXPECT_TRUE(parameter.equal(initial[i]));
      // The same leaf as before.
      parameter.mul(2).sum().backward();
      EXPECT_EQ(parameter.grad().sum().item<double>(), 2 * static_cast<double>(initial[i].numel()));
    }
  });
}

TEST(ShardedParametersTest, AParameterWithoutAGradientIsNamed) {
  const Tensors initial = RandomTensors(1);
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    Network network(initial);
    ShardedParameters sharded(network, {groups.all(), config.rank()});
    network.SetGradients(initial);
    network.parameters()[3].tensor.mutable_grad() = at::Tensor();
    try {
      sharded.ReduceScatter();
      ADD_FAILURE() << "it is not noticed";
    } catch (const c10::ValueError& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  ::testing::HasSubstr("model.layers.1.mlp.weight"));
    }
  });
}

TEST(ShardedParametersTest, ABlockIsAUnitAndTheRestIsOne) {
  std::vector<NamedTensor> parameters;
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.q.weight", "model.layers.0.k.weight",
        "model.layers.10.q.weight", "model.layers.1.q.weight", "model.norm.weight", "layers.weight",
        "layers.2"}) {
    parameters.push_back({name, at::Tensor()});
  }
  EXPECT_THAT(UnitsOf(parameters), ElementsAre(ElementsAre(0, 5, 6, 7), ElementsAre(1, 2),
                                               ElementsAre(3), ElementsAre(4)));
  parameters.clear();
  parameters.push_back({"layers.0.weight", at::Tensor()});
  EXPECT_THAT(UnitsOf(parameters), ElementsAre(ElementsAre(0)));
}

}  // namespace
}  // namespace paceline
