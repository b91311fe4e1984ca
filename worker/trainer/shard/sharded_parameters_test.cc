#include "worker/trainer/shard/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
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
  bool in_block = false;  // A matrix of a block.
};

// Rows that 2 and 3 ranks share unevenly; a parameter of one row leaves others none. Each shard is
// a multiple of 16 values, as wide as a processor's vectors, because the fused optimizer may round
// a value differently in what is left over.
const std::vector<Shape>& Shapes() {
  static const auto* const shapes =
      new std::vector<Shape>{{"model.embed_tokens.weight", {7, 32}},
                             {"model.layers.0.mlp.weight", {5, 16}, true},
                             {"model.layers.0.norm.weight", {96}},
                             {"model.layers.1.mlp.weight", {1, 32}, true},
                             {"model.layers.1.conv.weight", {2, 4, 8}, true},
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

  // A backward pass that gives these gradients.
  void RunBackward(const Tensors& gradients) {
    at::Tensor loss = at::zeros({});
    for (size_t i = 0; i < gradients.size(); ++i) {
      const at::Tensor& parameter = parameters()[i].tensor;
      const at::Tensor product = parameter.mul(gradients[i].to(parameter.scalar_type()));
      loss = loss.add(product.to(at::kFloat).sum());
    }
    loss.backward();
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

Sharding ShardingOf(const TrainerConfig& config, at::ScalarType block_type = at::kFloat) {
  Sharding sharding;
  sharding.shards = config.member.world_size;
  sharding.position = config.rank();
  sharding.block_type = block_type;
  return sharding;
}

void ExpectShardedTrainingIsTheSame(int ranks, at::ScalarType block_type) {
  const Training training(ranks);
  const std::vector<Tensors> expected = TrainWhole(training);
  RunRanks(Ranks(ranks), [&](const TrainerConfig& config, Groups& groups) {
    Network network(training.initial);
    ShardedParameters sharded(network, ShardingOf(config, block_type));
    sharded.SetReplica(&groups.all());
    const std::unique_ptr<Optimizer> optimizer =
        MakeOptimizer(AdamW(), TensorsOf(sharded.parameters()));
    const at::Tensor learning_rate = MakeLearningRate(at::kCPU).fill_(0.01);
    for (size_t step = 0; step < kSteps; ++step) {
      sharded.BeginPass(/*last=*/true);
      network.RunBackward(training.gradients[step][static_cast<size_t>(config.rank())]);
      optimizer->Step(learning_rate, {});
      sharded.Gather();
      for (size_t i = 0; i < expected[step].size(); ++i) {
        const NamedTensor& parameter = network.parameters()[i];
        EXPECT_FALSE(parameter.tensor.grad().defined());
        const bool in_block = Shapes()[i].in_block;
        const at::ScalarType type = in_block ? block_type : at::kFloat;
        EXPECT_EQ(parameter.tensor.scalar_type(), type) << parameter.name;
        EXPECT_TRUE(parameter.tensor.equal(expected[step][i].to(type)))
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

TEST(ShardedParametersTest, MatricesOfBlocksInBfloat16AreRoundedMasters) {
  for (const int ranks : {2, 3}) {
    SCOPED_TRACE(ranks);
    ExpectShardedTrainingIsTheSame(ranks, at::kBFloat16);
  }
}

// Expects a rank's parameters to be the rows of `whole` that torch.chunk gives this position.
void ExpectRows(const ShardedParameters& sharded, const Tensors& whole, int shards, int position) {
  const std::vector<NamedTensor>& rows = sharded.parameters();
  ASSERT_EQ(rows.size(), whole.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].name, Shapes()[i].name) << "the model's order";
    const Tensors chunks = whole[i].chunk(shards, 0);
    const auto index = static_cast<size_t>(position);
    const at::Tensor expected =
        index < chunks.size() ? chunks[index] : whole[i].narrow(0, whole[i].size(0), 0);
    EXPECT_TRUE(rows[i].tensor.detach().equal(expected)) << rows[i].name;
    ASSERT_TRUE(rows[i].slice.has_value());
    EXPECT_EQ(rows[i].slice->global_shape, whole[i].sizes().vec());
    EXPECT_EQ(rows[i].slice->sizes, expected.sizes().vec());
  }
}

TEST(ShardedParametersTest, RowsAreThoseThatTorchChunkGives) {
  const Tensors initial = RandomTensors(1);
  for (int position = 0; position < 3; ++position) {
    const Network network(initial);
    Sharding sharding;
    sharding.shards = 3;
    sharding.position = position;
    ExpectRows(ShardedParameters(network, sharding), initial, 3, position);
  }
}

// A newcomer that has the rows of its new position from elsewhere.
TEST(ShardedParametersTest, ARankTakesAnotherPosition) {
  const Tensors initial = RandomTensors(1);
  RunRanks(Ranks(3), [&](const TrainerConfig& config, Groups& groups) {
    const Network network(initial);
    Sharding sharding = ShardingOf(config);
    sharding.position = 0;
    ShardedParameters sharded(network, sharding);
    const Tensors tensors = TensorsOf(sharded.parameters());
    sharded.SetPosition(config.rank());
    EXPECT_EQ(sharded.position(), config.rank());
    {
      const at::NoGradGuard no_grad;
      for (size_t i = 0; i < tensors.size(); ++i) {
        const NamedTensor& rows = sharded.parameters()[i];
        EXPECT_TRUE(rows.tensor.is_same(tensors[i]));
        EXPECT_EQ(tensors[i].sizes().vec(), rows.slice->sizes);
        tensors[i].copy_(initial[i].narrow(0, rows.slice->offsets[0], rows.slice->sizes[0]));
        network.parameters()[i].tensor.zero_();
      }
    }
    ExpectRows(sharded, initial, 3, config.rank());
    sharded.SetReplica(&groups.all());
    sharded.Gather();
    for (size_t i = 0; i < initial.size(); ++i) {
      EXPECT_TRUE(network.parameters()[i].tensor.equal(initial[i])) << Shapes()[i].name;
    }
  });
}

TEST(ShardedParametersTest, GradientsOfSeveralPassesAddUp) {
  const Tensors initial = RandomTensors(1);
  const Tensors first = WholeNumbers(2);
  const Tensors second = WholeNumbers(3);
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    Network network(initial);
    ShardedParameters sharded(network, ShardingOf(config));
    sharded.SetReplica(&groups.all());
    // What was cut off does not count.
    sharded.BeginPass(/*last=*/false);
    network.RunBackward(first);
    sharded.Gather();
    sharded.BeginPass(/*last=*/false);
    network.RunBackward(first);
    sharded.BeginPass(/*last=*/true);
    network.RunBackward(second);
    // Both ranks have the same gradients, so these are their mean.
    for (size_t i = 0; i < initial.size(); ++i) {
      const NamedTensor& rows = sharded.parameters()[i];
      const at::Tensor sum = first[i].add(second[i]);
      EXPECT_TRUE(
          rows.tensor.grad().equal(sum.narrow(0, rows.slice->offsets[0], rows.slice->sizes[0])))
          << rows.name;
    }
  });
}

// Two replicas of two ranks.
TEST(ShardedParametersTest, ReplicasTakeTheMeanInTheLastPass) {
  const Tensors initial = RandomTensors(1);
  std::vector<Tensors> gradients;
  for (uint64_t rank = 0; rank < 4; ++rank) gradients.push_back(WholeNumbers(10 + rank));
  RunRanks(Ranks(4), [&](const TrainerConfig& config, Groups& groups) {
    const int replica = config.rank() / 2;
    const int position = config.rank() % 2;
    const std::shared_ptr<Group> together =
        groups.Make({2 * replica, 2 * replica + 1}, "replica", /*version=*/1);
    const std::shared_ptr<Group> lane =
        groups.Make({position, position + 2}, "lane", /*version=*/1);
    Network network(initial);
    Sharding sharding;
    sharding.shards = 2;
    sharding.position = position;
    ShardedParameters sharded(network, sharding);
    sharded.SetReplica(together.get());
    sharded.SetGradientGroup(lane.get());
    Tensors mean;
    for (const at::Tensor& tensor : initial) mean.push_back(at::zeros_like(tensor));
    for (const bool last : {false, true}) {
      for (const Tensors& of_rank : gradients) {
        for (size_t i = 0; i < mean.size(); ++i) mean[i].add_(of_rank[i], 0.25);
      }
      sharded.BeginPass(last);
      network.RunBackward(gradients[static_cast<size_t>(config.rank())]);
    }
    for (size_t i = 0; i < initial.size(); ++i) {
      const NamedTensor& rows = sharded.parameters()[i];
      EXPECT_TRUE(
          rows.tensor.grad().equal(mean[i].narrow(0, rows.slice->offsets[0], rows.slice->sizes[0])))
          << rows.name;
    }
  });
}

TEST(ShardedParametersTest, ABlockThatIsReleasedIsNotUsedUnseenAndComesBack) {
  const Tensors initial = RandomTensors(1);
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    const Network network(initial);
    Sharding sharding = ShardingOf(config);
    sharding.releases_blocks = true;
    ShardedParameters sharded(network, sharding);
    sharded.SetReplica(&groups.all());
    const std::vector<GatheredWeights*> blocks = sharded.Blocks();
    ASSERT_EQ(blocks.size(), 2u);
    for (const bool comes_back : {false, true}) {
      sharded.Gather();
      if (comes_back) {
        for (GatheredWeights* block : blocks) block->Gather();
      }
      for (size_t i = 0; i < initial.size(); ++i) {
        const at::Tensor& parameter = network.parameters()[i].tensor;
        EXPECT_EQ(parameter.sizes(), initial[i].sizes());
        if (comes_back || !Shapes()[i].in_block) {
          EXPECT_TRUE(parameter.equal(initial[i])) << Shapes()[i].name;
        } else {
          EXPECT_EQ(parameter.storage().nbytes(), sizeof(float));
          EXPECT_TRUE(at::isnan(parameter.detach()).all().item<bool>());
        }
      }
    }
  });
}

TEST(ShardedParametersTest, TheFirstRankGetsTheWholeModel) {
  const Tensors initial = RandomTensors(1);
  RunRanks(Ranks(3), [&](const TrainerConfig& config, Groups& groups) {
    const Network network(initial);
    ShardedParameters sharded(network, ShardingOf(config, at::kBFloat16));
    sharded.SetReplica(&groups.all());
    const std::unique_ptr<ModelTensors> whole = sharded.CopyWhole();
    ASSERT_EQ(whole != nullptr, config.rank() == 0);
    if (whole == nullptr) return;
    for (size_t i = 0; i < initial.size(); ++i) {
      EXPECT_EQ(whole->parameters()[i].name, Shapes()[i].name);
      EXPECT_TRUE(whole->parameters()[i].tensor.equal(initial[i])) << "not rounded";
    }
  });
}

TEST(ShardedParametersTest, ABlocksMatricesAreAUnitAndVectorsAreOne) {
  std::vector<NamedTensor> parameters;
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.q.weight", "model.layers.0.k.weight",
        "model.layers.10.q.weight", "model.layers.1.q.weight", "lm_head.weight", "layers.weight",
        "layers.2"}) {
    parameters.push_back({name, at::zeros({2, 2})});
  }
  parameters.push_back({"model.layers.0.norm.weight", at::zeros({2})});
  std::vector<std::vector<size_t>> units;
  std::vector<int> blocks;
  for (const UnitIndices& unit : UnitsOf(parameters)) {
    units.push_back(unit.parameters);
    blocks.push_back(unit.is_block ? 1 : 0);
  }
  EXPECT_THAT(units, ElementsAre(ElementsAre(8), ElementsAre(0), ElementsAre(1, 2), ElementsAre(3),
                                 ElementsAre(4), ElementsAre(5), ElementsAre(6), ElementsAre(7)));
  EXPECT_THAT(blocks, ElementsAre(0, 0, 1, 1, 1, 0, 0, 0));
}

}  // namespace
}  // namespace paceline
