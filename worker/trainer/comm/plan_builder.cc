#include "worker/trainer/comm/plan_builder.h"

#include <exception>
#include <map>
#include <utility>

#include "worker/trainer/comm/training_plan.h"

namespace paceline {

BuiltPlan BuildPlan(Groups& groups, TrainingPlan plan, int rank, const BuiltPlan* active) {
  std::map<std::pair<std::vector<int>, std::string>, std::shared_ptr<Group>> known;
  if (active != nullptr) {
    std::vector<std::shared_ptr<Group>> held = active->levels;
    held.push_back(active->gradients);
    size_t next = 0;
    for (const auto& members_and_use : GroupsOf(active->plan, rank)) {
      known[members_and_use] = held[next++];
    }
  }
  BuiltPlan built;
  // Every rank goes through the levels in this order, so none waits for one that waits for it.
  for (const auto& members_and_use : GroupsOf(plan, rank)) {
    std::shared_ptr<Group>& group = known[members_and_use];
    if (group == nullptr) {
      group = groups.Make(members_and_use.first, members_and_use.second, plan.epoch);
    }
    built.levels.push_back(group);
  }
  built.gradients = std::move(built.levels.back());
  built.levels.pop_back();
  built.plan = std::move(plan);
  return built;
}

PlanBuilder::PlanBuilder(Groups& groups, int rank, Events events)
    : groups_(groups), rank_(rank), events_(std::move(events)), thread_([this] { Run(); }) {}

PlanBuilder::~PlanBuilder() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void PlanBuilder::SetActive(std::shared_ptr<const BuiltPlan> active) {
  const absl::MutexLock lock(&mu_);
  active_.swap(active);  // The last one's groups close without the lock.
}

void PlanBuilder::Build(const TrainingPlan& plan) {
  const absl::MutexLock lock(&mu_);
  waiting_ = plan;
}

std::shared_ptr<const BuiltPlan> PlanBuilder::newest() const {
  const absl::MutexLock lock(&mu_);
  return newest_;
}

void PlanBuilder::Run() {
  while (true) {
    TrainingPlan plan;
    std::shared_ptr<const BuiltPlan> active;
    {
      const absl::MutexLock lock(&mu_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return waiting_.has_value() || stopping_;
      };
      mu_.Await(absl::Condition(&has_work));
      if (stopping_) return;
      plan = *std::exchange(waiting_, std::nullopt);
      active = active_;
    }
    const int64_t epoch = plan.epoch;
    try {
      std::shared_ptr<const BuiltPlan> built =
          std::make_shared<BuiltPlan>(BuildPlan(groups_, std::move(plan), rank_, active.get()));
      {
        const absl::MutexLock lock(&mu_);
        newest_.swap(built);
      }
      events_.built(epoch);
    } catch (const std::exception& error) {
      events_.failed(epoch, error.what());
    }
  }
}

}  // namespace paceline
