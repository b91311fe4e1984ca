#include "common/job_spec/training_plan.h"

#include <algorithm>
#include <cstddef>

namespace paceline {
namespace {

std::vector<int> GroupsOf(const v1::LadderLevel& level, const std::vector<RankHome>& homes) {
  switch (level.level()) {
    case v1::SCOPE_NODE:
      return LadderGroups(LadderScope::kNode, 0, homes);
    case v1::SCOPE_RACK:
      return LadderGroups(LadderScope::kRack, 0, homes);
    case v1::SCOPE_ALL:
      return LadderGroups(LadderScope::kAll, 0, homes);
    default:
      return LadderGroups(LadderScope::kSize, level.size(), homes);
  }
}

// Makes groups of replicas groups of ranks.
class ReplicaGroups {
 public:
  ReplicaGroups(const std::vector<RankHome>& homes, const std::vector<bool>& filled, int shards)
      : shards_(shards), homes_(HomesOfReplicas(homes, shards)) {
    for (size_t seat = 0; seat < filled.size(); seat += static_cast<size_t>(shards)) {
      filled_.push_back(filled[seat]);
    }
  }

  const std::vector<RankHome>& homes() const { return homes_; }

  // The ranks in each of these groups of all replicas, without those that are not there.
  std::vector<int> Ranks(const std::vector<int>& groups) const {
    std::vector<int> ranks;
    auto replica = filled_.begin();
    for (const int size : groups) {
      if (filled_.empty()) {
        ranks.push_back(size * shards_);
        continue;
      }
      const int there = static_cast<int>(std::count(replica, replica + size, true));
      replica += size;
      if (there > 0) ranks.push_back(there * shards_);
    }
    return ranks;
  }

  // `size`: replicas in each; 0: those of a node. Empty when no replica would have a peer.
  std::vector<int> Gradients(int size) const {
    std::vector<int> ranks = Ranks(size == 0 ? LadderGroups(LadderScope::kNode, 0, homes_)
                                             : LadderGroups(LadderScope::kSize, size, homes_));
    const bool alone =
        std::all_of(ranks.begin(), ranks.end(), [&](int group) { return group == shards_; });
    return alone ? std::vector<int>() : ranks;
  }

 private:
  const int shards_;
  const std::vector<RankHome> homes_;  // By replica.
  std::vector<bool> filled_;           // By replica; empty: all are there.
};

void AddLevel(int64_t period, const std::vector<int>& groups, v1::WireFormat format,
              v1::TrainingPlan* plan) {
  v1::PlanLevel* level = plan->add_levels();
  level->set_period(period);
  level->mutable_groups()->Add(groups.begin(), groups.end());
  level->set_format(format == v1::WIRE_FORMAT_UNSPECIFIED ? v1::WIRE_FORMAT_FP32 : format);
}

}  // namespace

v1::TrainingPlan MakeTrainingPlan(int64_t version, const v1::Strategy& strategy,
                                  const std::vector<RankHome>& homes,
                                  const std::vector<bool>& filled, int shards) {
  const ReplicaGroups replicas(homes, filled, shards);
  v1::TrainingPlan plan;
  plan.set_version(version);
  if (strategy.has_slipstream()) {
    v1::SlipstreamPlan* slipstream = plan.mutable_slipstream();
    slipstream->set_mode(strategy.slipstream().mode());
    *slipstream->mutable_window() = strategy.slipstream().window();
    slipstream->set_averages_state(strategy.optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE);
    // Without a size there are none: ranks wait for nobody.
    const int size = std::max(strategy.gradient_group_size(), 1);
    const std::vector<int> groups = replicas.Gradients(size);
    plan.mutable_gradient_groups()->Add(groups.begin(), groups.end());
    return plan;
  }
  if (strategy.has_local_sgd()) {
    AddLevel(strategy.local_sgd().period(),
             replicas.Ranks(LadderGroups(LadderScope::kAll, 0, replicas.homes())),
             v1::WIRE_FORMAT_FP32, &plan);
  }
  for (const v1::LadderLevel& level : strategy.hsgd().ladder()) {
    AddLevel(level.period(), replicas.Ranks(GroupsOf(level, replicas.homes())), level.format(),
             &plan);
  }
  if (plan.levels().empty()) return plan;
  const std::vector<int> groups = replicas.Gradients(strategy.gradient_group_size());
  plan.mutable_gradient_groups()->Add(groups.begin(), groups.end());
  return plan;
}

}  // namespace paceline
