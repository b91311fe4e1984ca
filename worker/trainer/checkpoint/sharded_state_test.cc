// The state of sharded models: saved by R replicas of K shards, restored by others.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/core/lanes.h"
#include "common/core/slice.h"
#include "worker/trainer/checkpoint/testing/saved_parts.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/model/model.h"

namespace paceline {
namespace {

using Shape = std::vector<int64_t>;

// Replicas and shards.
struct Ranks {
  int replicas = 1;
  int shards = 1;

  int all() const { return replicas * shards; }
};

// The shards that torch's Shard(dimension) makes: of equal size, as far as there are elements.
Slice Chunk(const Shape& shape, size_t dimension, int position, int shards) {
  const int64_t extent = shape[dimension];
  const int64_t size = (extent + shards - 1) / shards;
  Slice slice{shape, Shape(shape.size(), 0), shape};
  slice.offsets[dimension] = std::min(extent, position * size);
  slice.sizes[dimension] = std::min(extent - slice.offsets[dimension], size);
  return slice;
}

at::Tensor PartOf(at::Tensor tensor, const Slice& slice) {
  for (size_t i = 0; i < slice.sizes.size(); ++i) {
    tensor = tensor.narrow(static_cast<int64_t>(i), slice.offsets[i], slice.sizes[i]);
  }
  return tensor.contiguous();
}

// A tensor of the state as a whole.
struct Global {
  std::string name;
  Shape shape;
  int dimension = 0;  // Along which it is sharded; -1: along none.
  at::ScalarType type = at::kFloat;

  at::Tensor whole() const {
    return at::arange(ElementsOf(shape), at::kLong).remainder(250).to(type).reshape(shape);
  }
};

std::vector<Global> Globals() {
  return {{"model/a", {97, 5}},
          {"model/b", {51}},
          {"model/half", {13, 3}, 0, at::kBFloat16},
          {"model/one_row", {1, 7}},
          {"model/none", {0, 4}},
          {"model/whole", {11, 3}, -1},
          {"model/columns", {6, 51}, 1},
          {"model/one_column", {4, 1}, 1},
          {"model/cube", {3, 97, 2}, 1},
          {"optimizer/step", {}, -1}};
}

// What a rank has of it.
StateTensor LocalOf(const Global& global, int position, int shards) {
  StateTensor local{global.name, global.whole()};
  if (global.dimension < 0) return local;
  local.slice = Chunk(global.shape, static_cast<size_t>(global.dimension), position, shards);
  local.tensor = PartOf(local.tensor, *local.slice);
  return local;
}

std::vector<ShardEntry> EntriesOf(const StatePart& part) {
  std::vector<ShardEntry> entries = part.entries;
  entries.insert(entries.end(), part.at_once.begin(), part.at_once.end());
  return entries;
}

// Saves what `state` returns for each rank.
std::string Save(const Ranks& ranks, const std::function<std::vector<StateTensor>(int)>& state) {
  std::vector<std::vector<ShardEntry>> entries;
  for (int rank = 0; rank < ranks.all(); ++rank) {
    entries.push_back(EntriesOf(PartOfRank(state(rank), rank, ranks.all(), Lanes{ranks.shards})));
  }
  const std::string directory = NewCheckpointDirectory();
  const absl::Status saved = SaveParts(directory, entries, ranks.shards);
  EXPECT_TRUE(saved.ok()) << saved;
  return directory;
}

std::string SaveGlobals(const Ranks& ranks) {
  return Save(ranks, [&](int rank) {
    std::vector<StateTensor> state;
    for (const Global& global : Globals()) {
      state.push_back(LocalOf(global, Lanes{ranks.shards}.PositionOf(rank), ranks.shards));
    }
    return state;
  });
}

StateReader Open(const std::string& directory) {
  absl::StatusOr<StateReader> reader = StateReader::Open(directory, /*threads=*/2);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

class ShardedStateTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }  // Torch's threads confuse sanitizers.
};

TEST_F(ShardedStateTest, ReplicasAndShardsAreReadByOthers) {
  const std::vector<Ranks> kinds = {{1, 1}, {2, 2}, {1, 3}, {4, 1}, {3, 2}};
  for (const Ranks& saved : kinds) {
    const std::string directory = SaveGlobals(saved);
    EXPECT_EQ(Open(directory).manifest().files.size(), static_cast<size_t>(saved.all()));
    for (const Ranks& now : kinds) {
      // The replicas read the same.
      for (int position = 0; position < now.shards; ++position) {
        StateReader reader = Open(directory);
        std::vector<ReadTarget> targets;
        int64_t bytes = 0;
        for (const Global& global : Globals()) {
          const StateTensor local = LocalOf(global, position, now.shards);
          const at::Tensor unread = at::full(local.tensor.sizes(), 77, global.type);
          targets.push_back({global.name, unread, local.slice});
          bytes += static_cast<int64_t>(unread.nbytes());
        }
        const absl::Status read = reader.Read(targets);
        ASSERT_TRUE(read.ok()) << read;
        EXPECT_EQ(reader.bytes_read(), bytes) << "its part alone";
        for (size_t i = 0; i < targets.size(); ++i) {
          EXPECT_TRUE(
              at::equal(targets[i].tensor, LocalOf(Globals()[i], position, now.shards).tensor))
              << targets[i].name << " of " << saved.replicas << " x " << saved.shards << " by "
              << now.replicas << " x " << now.shards;
        }
      }
    }
  }
}

TEST_F(ShardedStateTest, RowsAloneStayInTheFirstVersion) {
  const Ranks ranks{2, 3};
  const auto rows = [&](int rank) {
    std::vector<StateTensor> state;
    for (const Global& global : Globals()) {
      if (global.dimension < 1) {
        state.push_back(LocalOf(global, Lanes{ranks.shards}.PositionOf(rank), ranks.shards));
      }
    }
    return state;
  };
  const std::string directory = Save(ranks, rows);
  EXPECT_EQ(Open(directory).manifest().version, 1);
  EXPECT_EQ(Open(directory).manifest().shards, 3);
  EXPECT_EQ(Open(SaveGlobals({1, 1})).manifest().version, 1);
  EXPECT_EQ(Open(SaveGlobals({1, 2})).manifest().version, 2);
}

TEST_F(ShardedStateTest, ReplicasShareTheWriting) {
  const Ranks ranks{4, 2};
  int64_t least = INT64_MAX;
  int64_t most = 0;
  for (int rank = 0; rank < ranks.all(); ++rank) {
    const int position = Lanes{ranks.shards}.PositionOf(rank);
    const StateTensor local = LocalOf({"w", {1000, 8}}, position, ranks.shards);
    const int64_t bytes = PartOfRank({local}, rank, ranks.all(), Lanes{ranks.shards}).bytes();
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  EXPECT_EQ(least, 1000 * 8 * 4 / 8);
  EXPECT_EQ(most, least);
}

// A mesh of 2 x 2: sharded along its first dimension, equal along its second.
TEST_F(ShardedStateTest, AmongEqualSlicesOneIsSaved) {
  const Global global{"model/norm", {7, 2}};
  const auto state = [&](int rank) {
    const int position = rank % 4;
    StateTensor local = LocalOf(global, position / 2, 2);
    local.slice->copy = position % 2;
    return std::vector<StateTensor>{local};
  };
  StateReader reader = Open(Save({2, 4}, state));
  const at::Tensor whole = at::zeros(global.shape);
  ASSERT_TRUE(reader.Read({{global.name, whole}}).ok());
  EXPECT_TRUE(at::equal(whole, global.whole()));
}

TEST_F(ShardedStateTest, PaddingIsNoPartOfASlice) {
  StateTensor padded = LocalOf({"model/a", {97, 5}}, 1, 2);
  padded.tensor = at::zeros({49, 5});  // Of 48 rows.
  EXPECT_THROW(PartOfRank({padded}, 1, 2, Lanes{2}), c10::ValueError);
}

// A parameter in rows, and AdamW.
class ShardedModel : public Model {
 public:
  ShardedModel(int position, int shards) : Model(at::kCPU) {
    const Slice slice = Chunk({7, 2}, 0, position, shards);
    AddParameter("weight", at::zeros(slice.sizes));
    SetSlice("weight", slice);
  }
  at::Tensor Loss(const Batch& /*batch*/) override { return {}; }
  Score Evaluate(const Batch& /*batch*/) override { return {}; }
};

// A rank of a job in which each replica has an optimizer state of its own.
struct JobRank {
  JobRank(const Ranks& ranks, int rank)
      : model(Lanes{ranks.shards}.PositionOf(rank), ranks.shards),
        optimizer(MakeOptimizer(AdamW(), TensorsOf(model.parameters()))) {
    config.member.rank = rank;
    config.member.world_size = ranks.all();
    config.member.shards = ranks.shards;
    config.strategy.kind = StrategyConfig::Kind::kHsgd;
  }

  static OptimizerConfig AdamW() {
    OptimizerConfig config;
    config.kind = OptimizerConfig::Kind::kAdamW;
    return config;
  }

  at::Tensor Moment() const { return optimizer->Slots().at(0).tensors.at(0); }

  TrainerConfig config;
  ShardedModel model;
  std::unique_ptr<Optimizer> optimizer;
};

// The moment of a replica as a whole.
at::Tensor MomentOf(int replica) {
  return at::arange(14, at::kFloat).reshape({7, 2}).add(100.0 * (replica + 1));
}

TEST_F(ShardedStateTest, ReplicasThatDifferGetTheStateOfTheOneInTheirPlace) {
  const std::vector<Ranks> kinds = {{2, 1}, {2, 2}, {1, 3}, {4, 2}, {4, 1}};
  for (const Ranks& saved : kinds) {
    const std::string directory = Save(saved, [&](int rank) {
      const JobRank one(saved, rank);
      const Slice slice = *one.model.parameters().at(0).slice;
      one.Moment().copy_(PartOf(MomentOf(Lanes{saved.shards}.ReplicaOf(rank)), slice));
      return CollectState(one.config, one.model, *one.optimizer, /*attachments=*/nullptr);
    });
    for (const Ranks& now : kinds) {
      for (int rank = 0; rank < now.all(); ++rank) {
        const JobRank one(now, rank);
        StateReader reader = Open(directory);
        const absl::Status restored = RestoreState(reader, one.config, one.model, *one.optimizer,
                                                   /*attachments=*/nullptr);
        ASSERT_TRUE(restored.ok()) << restored;
        const int source = Lanes{now.shards}.ReplicaOf(rank) * saved.replicas / now.replicas;
        const Slice slice = *one.model.parameters().at(0).slice;
        EXPECT_TRUE(at::equal(one.Moment(), PartOf(MomentOf(source), slice)))
            << "rank " << rank << " of " << now.replicas << " x " << now.shards << ", saved by "
            << saved.replicas << " x " << saved.shards;
      }
    }
  }
}

// An optimizer that is attached: a moment in slices, a count, and, if there is one, what each
// position has for itself.
class SlicedAttachments : public Attachments {
 public:
  SlicedAttachments(int position, int shards, bool has_own)
      : slice_(Chunk({9, 3}, 1, position, shards)), has_own_(has_own) {
    tensors_ = MakeTensors();
  }

  std::string Names() const override { return "optimizer"; }
  Attachment Take(Scope scope) const override {
    if (scope == Scope::kOwn) return {"empty", {}};
    return {"moment", tensors_};
  }
  std::vector<at::Tensor> Allocate(Scope scope, const std::string& /*schema*/) const override {
    return scope == Scope::kOwn ? std::vector<at::Tensor>() : MakeTensors();
  }
  std::vector<std::optional<Slice>> Slices(Scope scope,
                                           const std::string& /*schema*/) const override {
    if (scope == Scope::kOwn) return {};
    std::vector<std::optional<Slice>> slices(tensors_.size());
    slices[0] = slice_;
    return slices;
  }
  void Put(Scope scope, const Attachment& attachment) override {
    if (scope == Scope::kShared) tensors_ = attachment.tensors;
  }
  void Keep() override {}
  void Undo() override {}

  void Fill(int position) {
    tensors_[0].copy_(PartOf(Global{"", {9, 3}}.whole(), slice_));
    tensors_[1].fill_(40);
    if (has_own_) tensors_[2].fill_(position);
  }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  const Slice& slice() const { return slice_; }

 private:
  std::vector<at::Tensor> MakeTensors() const {
    std::vector<at::Tensor> tensors = {at::zeros(slice_.sizes), at::zeros({})};
    if (has_own_) tensors.push_back(at::zeros({4}));
    return tensors;
  }

  const Slice slice_;
  const bool has_own_;
  std::vector<at::Tensor> tensors_;
};

TrainerConfig DdpConfig(const Ranks& ranks, int rank) {
  TrainerConfig config = JobRank(ranks, rank).config;
  config.strategy.kind = StrategyConfig::Kind::kDdp;
  return config;
}

std::string SaveAttached(const Ranks& ranks, bool has_own) {
  return Save(ranks, [&](int rank) {
    const JobRank one(ranks, rank);
    const int position = Lanes{ranks.shards}.PositionOf(rank);
    SlicedAttachments attached(position, ranks.shards, has_own);
    attached.Fill(position);
    return CollectState(DdpConfig(ranks, rank), one.model, *one.optimizer, &attached);
  });
}

TEST_F(ShardedStateTest, AttachedSlicesAreReadByOtherShards) {
  for (const Ranks& saved : {Ranks{2, 2}, Ranks{1, 3}, Ranks{2, 1}}) {
    const std::string directory = SaveAttached(saved, /*has_own=*/false);
    for (const Ranks& now : {Ranks{2, 2}, Ranks{1, 2}, Ranks{1, 1}}) {
      for (int rank = 0; rank < now.all(); ++rank) {
        const JobRank one(now, rank);
        SlicedAttachments attached(Lanes{now.shards}.PositionOf(rank), now.shards, false);
        StateReader reader = Open(directory);
        const absl::Status restored =
            RestoreState(reader, DdpConfig(now, rank), one.model, *one.optimizer, &attached);
        ASSERT_TRUE(restored.ok()) << restored;
        EXPECT_TRUE(
            at::equal(attached.tensors()[0], PartOf(Global{"", {9, 3}}.whole(), attached.slice())));
        EXPECT_EQ(attached.tensors()[1].item<float>(), 40);
      }
    }
  }
}

TEST_F(ShardedStateTest, WhatAPositionHasForItselfIsOfAsManyShards) {
  const std::string directory = SaveAttached({2, 2}, /*has_own=*/true);
  for (const Ranks& now : {Ranks{2, 2}, Ranks{1, 2}, Ranks{3, 2}, Ranks{1, 1}, Ranks{1, 4}}) {
    for (int rank = 0; rank < now.all(); ++rank) {
      const JobRank one(now, rank);
      const int position = Lanes{now.shards}.PositionOf(rank);
      SlicedAttachments attached(position, now.shards, /*has_own=*/true);
      StateReader reader = Open(directory);
      const absl::Status restored =
          RestoreState(reader, DdpConfig(now, rank), one.model, *one.optimizer, &attached);
      if (now.shards == 2) {
        ASSERT_TRUE(restored.ok()) << restored;
        EXPECT_TRUE(at::equal(attached.tensors()[2], at::full({4}, position, at::kFloat)));
      } else {
        EXPECT_EQ(restored.code(), absl::StatusCode::kInvalidArgument) << restored;
        EXPECT_TRUE(absl::StrContains(restored.message(), "attached/shared/2 is no DTensor"))
            << restored;
      }
    }
  }
}

TEST_F(ShardedStateTest, WhatAWholeReplicaHadForItselfIsOfAnyShards) {
  const Ranks saved{2, 1};
  const Ranks now{2, 2};
  const std::string directory = Save(saved, [&](int rank) {
    const JobRank one(saved, rank);
    SlicedAttachments attached(0, saved.shards, /*has_own=*/true);
    attached.Fill(rank);
    return CollectState(one.config, one.model, *one.optimizer, &attached);
  });
  for (int rank = 0; rank < now.all(); ++rank) {
    const JobRank one(now, rank);
    SlicedAttachments attached(Lanes{now.shards}.PositionOf(rank), now.shards, /*has_own=*/true);
    StateReader reader = Open(directory);
    const absl::Status restored =
        RestoreState(reader, one.config, one.model, *one.optimizer, &attached);
    ASSERT_TRUE(restored.ok()) << restored;
    const int replica = Lanes{now.shards}.ReplicaOf(rank);
    EXPECT_TRUE(at::equal(attached.tensors()[2], at::full({4}, replica, at::kFloat))) << rank;
  }
}

}  // namespace
}  // namespace paceline
