#include "worker/trainer/comm/plan_builder.h"

#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/core/lanes.h"
#include "worker/trainer/comm/training_plan.h"

namespace paceline {
namespace {

// Collective. Takes over the groups of `active` (null: none): all of its ranks have them.
ShardGroups BuildShardGroups(Groups& groups, const BuiltPlan& plan, const Member& member,
                             const ShardGroups* active) {
  const Lanes lanes = member.lanes();
  const int64_t version = plan.plan.version;
  ShardGroups built;
  if (active != nullptr) {
    built = *active;
  } else {
    std::vector<int> replicas(static_cast<size_t>(lanes.ReplicasIn(member.world_size)));
    std::iota(replicas.begin(), replicas.end(), 0);
    const int position = lanes.PositionOf(member.rank);
    built.lane = groups.Make(lanes.LaneOf(position, replicas), "lane", version);
    built.replica = groups.Make(ReplicasOf({member.rank}, lanes), "replica", version);
    built.all_word = groups.MakeOfAll("word", version, Groups::Traffic::kOnHost);
  }
  std::map<std::vector<int>, std::shared_ptr<Group>> words;  // By members.
  words[built.all_word->ranks()] = built.all_word;
  if (active != nullptr) {
    for (const std::shared_ptr<Group>& word : active->level_words) words[word->ranks()] = word;
    for (const auto& word : {active->replica_word, active->gradients_word}) {
      words[word->ranks()] = word;
    }
  }
  const auto word_of = [&](const std::vector<int>& lane) {
    const std::vector<int> members = ReplicasOf(lane, lanes);
    std::shared_ptr<Group>& word = words[members];
    if (word == nullptr) word = groups.Make(members, "word", version);
    return word;
  };
  built.level_words.clear();
  for (const std::shared_ptr<Group>& level : plan.levels) {
    built.level_words.push_back(word_of(level->ranks()));
  }
  built.gradients_word = word_of(plan.gradients->ranks());
  built.replica_word = word_of({member.rank});
  return built;
}

}  // namespace

BuiltPlan BuildPlan(Groups& groups, TrainingPlan plan, const Member& member,
                    const BuiltPlan* active) {
  const int rank = member.rank;
  const Lanes lanes = member.lanes();
  std::map<std::pair<std::vector<int>, std::string>, std::shared_ptr<Group>> known;
  if (active != nullptr) {
    std::vector<std::shared_ptr<Group>> held = active->levels;
    held.push_back(active->gradients);
    size_t next = 0;
    for (const auto& members_and_use : GroupsOf(active->plan, rank, lanes)) {
      known[members_and_use] = held[next++];
    }
  }
  BuiltPlan built;
  // All ranks go through the levels in this order, so they cannot wait for each other in a cycle.
  for (const auto& members_and_use : GroupsOf(plan, rank, lanes)) {
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
  if (member.shards > 1) {
    const bool has = active != nullptr && active->shards.has_value();
    built.shards = BuildShardGroups(groups, built, member, has ? &*active->shards : nullptr);
  }
  return built;
}

std::shared_ptr<const BuiltPlan> BuildFirstPlan(Groups& groups, const TrainerConfig& config,
                                                const TrainingPlan& plan) {
  absl::StatusOr<TrainingPlan> shared =
      DecodePlan(groups.ShareFromRankZero("plan", EncodePlan(plan)));
  if (!shared.ok()) throw std::invalid_argument(std::string(shared.status().message()));
  const absl::Status fits = CheckPlanOf(*shared, config);
  if (!fits.ok()) throw std::invalid_argument(std::string(fits.message()));
  auto built =
      std::make_shared<BuiltPlan>(BuildPlan(groups, *std::move(shared), config.member, nullptr));
  if (built->shards.has_value()) {
    for (const std::vector<int>& ranks : MeshGroupsOf(config.mesh, config.member)) {
      const size_t dimension = built->shards->mesh.size();
      built->shards->mesh.push_back(
          groups.Make(ranks, absl::StrCat("mesh", dimension), built->plan.version));
    }
  }
  return built;
}

struct PlanBuilder::Work {
  Work(const Groups& its_groups, const Member& its_member, Events its_events)
      : groups(its_groups), member(its_member), events(std::move(its_events)) {}

  void Run();
  void Tell(const std::function<void(const Events&)>& event);

  Groups groups;
  const Member member;
  const Events events;

  absl::Mutex telling;  // Held during an event.
  bool abandoned ABSL_GUARDED_BY(telling) = false;

  absl::Mutex mu;
  std::optional<TrainingPlan> waiting ABSL_GUARDED_BY(mu);
  std::shared_ptr<const BuiltPlan> active ABSL_GUARDED_BY(mu);
  std::shared_ptr<const BuiltPlan> newest ABSL_GUARDED_BY(mu);
  bool stopping ABSL_GUARDED_BY(mu) = false;
};

PlanBuilder::PlanBuilder(const Groups& groups, const Member& member, Events events)
    : work_(std::make_shared<Work>(groups, member, std::move(events))) {
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
          std::make_shared<BuiltPlan>(BuildPlan(groups, std::move(plan), member, present.get()));
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
