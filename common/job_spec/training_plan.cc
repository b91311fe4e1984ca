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

// By replica, of which the seats are all filled or all empty.
std::vector<bool> FilledReplicas(const std::vector<bool>& seats, int shards) {
  std::vector<bool> replicas;
  for (size_t seat = 0; seat < seats.size(); seat += static_cast<size_t>(shards)) {
    replicas.push_back(seats[seat]);
  }
  return replicas;
}

// The groups of all replicas as groups of those that are there.
std::vector<int> WithoutEmpty(const std::vector<int>& groups, const std::vector<bool>& filled) {
  if (filled.empty()) return groups;
  std::vector<int> left;
  auto replica = filled.begin();
  for (const int size : groups) {
    const int there = static_cast<int>(std::count(replica, replica + size, true));
    replica += size;
    if (there > 0) left.push_back(there);
  }
  return left;
}

// Empty when no replica would have a peer.
std::vector<int> GradientGroups(int size, const std::vector<RankHome>& homes,
                                const std::vector<bool>& filled) {
  std::vector<int> groups = WithoutEmpty(size == 0 ? LadderGroups(LadderScope::kNode, 0, homes)
                                                   : LadderGroups(LadderScope::kSize, size, homes),
                                         filled);
  if (std::all_of(groups.begin(), groups.end(), [](int group) { return group == 1; })) {
    groups.clear();
  }
  return groups;
}

v1::PlanLevel* AddLevel(const std::vector<int>& groups, v1::WireFormat format,
                        v1::TrainingPlan* plan) {
  v1::PlanLevel* level = plan->add_levels();
  level->mutable_groups()->Add(groups.begin(), groups.end());
  level->set_format(format == v1::WIRE_FORMAT_UNSPECIFIED ? v1::WIRE_FORMAT_FP32 : format);
  return level;
}

// `from`: a v1::LocalSgd or v1::LadderLevel.
template <typename Level>
void SetPeriod(const Level& from, v1::PlanLevel* level) {
  if (from.has_outer()) *level->mutable_outer() = from.outer();
  if (from.has_outer() || from.format() == v1::WIRE_FORMAT_FP8) {
    level->set_guarded_period(from.period());
  } else {
    level->set_period(from.period());
  }
}

}  // namespace

v1::TrainingPlan MakeTrainingPlan(int64_t version, const v1::Strategy& strategy,
                                  const std::vector<RankHome>& seat_homes,
                                  const std::vector<bool>& filled_seats, int shards) {
  const std::vector<RankHome> homes = HomesOfReplicas(seat_homes, shards);
  const std::vector<bool> filled = FilledReplicas(filled_seats, shards);
  v1::TrainingPlan plan;
  plan.set_version(version);
  if (strategy.has_slipstream()) {
    v1::SlipstreamPlan* slipstream = plan.mutable_slipstream();
    slipstream->set_mode(strategy.slipstream().mode());
    *slipstream->mutable_window() = strategy.slipstream().window();
    slipstream->set_averages_state(strategy.optimizer_state() == v1::OPTIMIZER_STATE_AVERAGE);
    // Without a size there are none: ranks wait for nobody.
    const int size = std::max(strategy.gradient_group_size(), 1);
    const std::vector<int> groups = GradientGroups(size, homes, filled);
    plan.mutable_gradient_groups()->Add(groups.begin(), groups.end());
    return plan;
  }
  if (strategy.has_local_sgd()) {
    SetPeriod(strategy.local_sgd(),
              AddLevel(WithoutEmpty(LadderGroups(LadderScope::kAll, 0, homes), filled),
                       strategy.local_sgd().format(), &plan));
  }
  const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder = strategy.hsgd().ladder();
  for (int i = 0; i < ladder.size(); ++i) {
    const v1::LadderLevel& level = ladder[i];
    // The last one is of all, also when its size is the number of ranks and the job has grown.
    const std::vector<int> groups =
        i + 1 == ladder.size() ? LadderGroups(LadderScope::kAll, 0, homes) : GroupsOf(level, homes);
    SetPeriod(level, AddLevel(WithoutEmpty(groups, filled), level.format(), &plan));
  }
  if (plan.levels().empty()) return plan;
  const std::vector<int> groups = GradientGroups(strategy.gradient_group_size(), homes, filled);
  plan.mutable_gradient_groups()->Add(groups.begin(), groups.end());
  return plan;
}

}  // namespace paceline
