#include "worker/trainer/comm/plan_builder.h"

#include <exception>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
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
  // All ranks go through the levels in this order, so they cannot wait for each other in a cycle.
  for (const auto& members_and_use : GroupsOf(plan, rank)) {
    std::shared_ptr<Group>& group = known[members_and_use];
    if (group == nullptr) {
      group = groups.Make(members_and_use.first, members_and_use.second, plan.version);
    }
    built.levels.push_back(group);
  }
  built.gradients = std::move(built.levels.back());
  built.levels.pop_back();
  if (plan.slipstream.has_value()) {
    const bool has = active != nullptr && active->headers != nullptr;
    using Traffic = Groups::Traffic;
    const Traffic traffic =
        IsLocal(plan.slipstream->mode) ? Traffic::kBesideTraining : Traffic::kOnDevice;
    built.headers =
        has ? active->headers : groups.MakeOfAll("headers", plan.version, Traffic::kOnHost);
    built.payloads = has ? active->payloads : groups.MakeOfAll("payloads", plan.version, traffic);
  }
  built.plan = std::move(plan);
  return built;
}

std::shared_ptr<const BuiltPlan> BuildFirstPlan(Groups& groups, const TrainerConfig& config,
                                                const TrainingPlan& plan) {
  absl::StatusOr<TrainingPlan> shared =
      DecodePlan(groups.ShareFromRankZero("plan", EncodePlan(plan)));
  if (!shared.ok()) throw std::invalid_argument(std::string(shared.status().message()));
  const absl::Status fits = CheckPlan(*shared, config.strategy.kind, config.member.world_size);
  if (!fits.ok()) throw std::invalid_argument(std::string(fits.message()));
  return std::make_shared<BuiltPlan>(BuildPlan(groups, *std::move(shared), config.rank(), nullptr));
}

struct PlanBuilder::Work {
  Work(const Groups& its_groups, int its_rank, Events its_events)
      : groups(its_groups), rank(its_rank), events(std::move(its_events)) {}

  void Run();
  void Tell(const std::function<void(const Events&)>& event);

  Groups groups;
  const int rank;
  const Events events;

  absl::Mutex telling;  // Held during an event.
  bool abandoned ABSL_GUARDED_BY(telling) = false;

  absl::Mutex mu;
  std::optional<TrainingPlan> waiting ABSL_GUARDED_BY(mu);
  std::shared_ptr<const BuiltPlan> active ABSL_GUARDED_BY(mu);
  std::shared_ptr<const BuiltPlan> newest ABSL_GUARDED_BY(mu);
  bool stopping ABSL_GUARDED_BY(mu) = false;
};

PlanBuilder::PlanBuilder(const Groups& groups, int rank, Events events)
    : work_(std::make_shared<Work>(groups, rank, std::move(events))) {
  std::thread([work = work_] { work->Run(); }).detach();
}

PlanBuilder::~PlanBuilder() {
  std::shared_ptr<const BuiltPlan> active;
  std::shared_ptr<const BuiltPlan> newest;
  {
    const absl::MutexLock lock(&work_->mu);
    work_->stopping = true;
    active.swap(work_->active);  // Their groups close outside the lock.
    newest.swap(work_->newest);
  }
  const absl::MutexLock lock(&work_->telling);
  work_->abandoned = true;
}

void PlanBuilder::SetActive(std::shared_ptr<const BuiltPlan> active) {
  const absl::MutexLock lock(&work_->mu);
  work_->active.swap(active);  // The last plan's groups close outside the lock.
}

void PlanBuilder::Build(const TrainingPlan& plan) {
  const absl::MutexLock lock(&work_->mu);
  work_->waiting = plan;
}

std::shared_ptr<const BuiltPlan> PlanBuilder::newest() const {
  const absl::MutexLock lock(&work_->mu);
  return work_->newest;
}

void PlanBuilder::Work::Tell(const std::function<void(const Events&)>& event) {
  const absl::MutexLock lock(&telling);
  if (!abandoned) event(events);
}

void PlanBuilder::Work::Run() {
  while (true) {
    TrainingPlan plan;
    std::shared_ptr<const BuiltPlan> present;
    {
      const absl::MutexLock lock(&mu);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
        return waiting.has_value() || stopping;
      };
      mu.Await(absl::Condition(&has_work));
      if (stopping) return;
      plan = *std::exchange(waiting, std::nullopt);
      present = active;
    }
    const int64_t version = plan.version;
    try {
      std::shared_ptr<const BuiltPlan> built =
          std::make_shared<BuiltPlan>(BuildPlan(groups, std::move(plan), rank, present.get()));
      {
        const absl::MutexLock lock(&mu);
        if (!stopping) newest.swap(built);
      }
      Tell([&](const Events& on) { on.built(version); });
    } catch (const std::exception& error) {
      Tell([&](const Events& on) { on.failed(version, error.what()); });
    }
  }
}

}  // namespace paceline
