#include "worker/trainer/comm/plan_builder.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/log.h"
#include "worker/trainer/comm/training_plan.h"

namespace paceline {

BuiltPlan BuildPlan(Groups& groups, TrainingPlan plan, int rank) {
  BuiltPlan built;
  // Every rank goes through the levels in this order, so none waits for one that waits for it.
  for (const auto& [ranks, use] : GroupsOf(plan, rank)) {
    built.levels.push_back(&groups.Get(ranks, use));
  }
  built.gradients = built.levels.back();
  built.levels.pop_back();
  built.plan = std::move(plan);
  return built;
}

PlanBuilder::PlanBuilder(Groups& groups, int rank, std::function<void(int64_t epoch)> on_built)
    : groups_(groups), rank_(rank), on_built_(std::move(on_built)), thread_([this] { Run(); }) {}

PlanBuilder::~PlanBuilder() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void PlanBuilder::Build(const TrainingPlan& plan) {
  const absl::MutexLock lock(&mu_);
  waiting_ = plan;
}

std::shared_ptr<const BuiltPlan> PlanBuilder::newest() const {
  const absl::MutexLock lock(&mu_);
  return newest_;
}

bool PlanBuilder::Needs(const std::vector<int>& ranks, const std::string& use) const {
  const absl::MutexLock lock(&mu_);
  const auto has = [&](const TrainingPlan& plan) {
    const auto groups = GroupsOf(plan, rank_);
    return std::find(groups.begin(), groups.end(), std::make_pair(ranks, use)) != groups.end();
  };
  return (waiting_ && has(*waiting_)) || (in_work_ && has(*in_work_)) ||
         (newest_ != nullptr && has(newest_->plan));
}

void PlanBuilder::Run() {
  while (true) {
    TrainingPlan plan;
    {
      const absl::MutexLock lock(&mu_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return waiting_.has_value() || stopping_;
      };
      mu_.Await(absl::Condition(&has_work));
      if (stopping_) return;
      plan = *waiting_;
      in_work_ = std::move(waiting_);
      waiting_.reset();
    }
    std::shared_ptr<const BuiltPlan> built;
    try {
      built = std::make_shared<BuiltPlan>(BuildPlan(groups_, plan, rank_));
    } catch (const std::exception& error) {
      PACELINE_LOG(ERROR) << "plan epoch=" << plan.epoch
                          << " cannot be prepared and is left out: " << error.what();
    }
    {
      const absl::MutexLock lock(&mu_);
      in_work_.reset();
      if (built != nullptr) newest_ = built;
    }
    if (built != nullptr) on_built_(plan.epoch);
  }
}

}  // namespace paceline
