// Builds the communicators of training plans on a thread of its own while training goes on.
#ifndef WORKER_TRAINER_COMM_PLAN_BUILDER_H_
#define WORKER_TRAINER_COMM_PLAN_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"

namespace paceline {

// Further groups of a job with shards. Those for words (step_word.h) exchange host tensors.
struct ShardGroups {
  std::shared_ptr<Group> replica;  // The ranks that hold one copy of the model with this one.
  // Of these, for each dimension of TrainerConfig::mesh, those that differ in it alone.
  std::vector<std::shared_ptr<Group>> mesh;
  std::shared_ptr<Group> lane;  // The ranks of all replicas that hold the same part as this one.
  std::shared_ptr<Group> all_word;  // All ranks.
  // The ranks of this replica, of those that share gradients with it after the warm-up, and of
  // those of each level's group.
  std::shared_ptr<Group> replica_word;
  std::shared_ptr<Group> gradients_word;
  std::vector<std::shared_ptr<Group>> level_words;
};

// A plan whose groups are all connected. A group closes with the last plan that holds it.
struct BuiltPlan {
  TrainingPlan plan;
  std::vector<std::shared_ptr<Group>> levels;  // This rank's group of each level.
  std::shared_ptr<Group> gradients;            // For gradients after the warm-up.
  // Slipstream's groups of all ranks; otherwise null. Headers are on the host.
  std::shared_ptr<Group> headers;
  std::shared_ptr<Group> payloads;
  std::optional<ShardGroups> shards;  // Unset: each rank is a replica.
};

// Collective. Takes over groups with the same members and use from `active`, the plan that all
// ranks train by (null: none). Makes all other groups anew, even if another plan has them: that
// plan may have failed on some members.
BuiltPlan BuildPlan(Groups& groups, TrainingPlan plan, const Member& member,
                    const BuiltPlan* active);

// Builds rank 0's `plan` as the first plan of a generation. Collective. Throws
// std::invalid_argument when it does not fit the job.
std::shared_ptr<const BuiltPlan> BuildFirstPlan(Groups& groups, const TrainerConfig& config,
                                                const TrainingPlan& plan);

// Thread-safe.
class PlanBuilder {
 public:
  // Called on the builder's thread, in the order of the plans; never after the destructor.
  struct Events {
    std::function<void(int64_t version)> built;
    std::function<void(int64_t version, const std::string& error)> failed;
  };

  PlanBuilder(const Groups& groups, const Member& member, Events events);
  // Does not wait for a plan under construction: a missing member would block everything. The
  // thread ends by itself, at the groups' timeout at the latest.
  ~PlanBuilder();

  // Sets the plan that the rank trains by from now on.
  void SetActive(std::shared_ptr<const BuiltPlan> active);

  // Builds this plan after the current one, replacing a plan that waits.
  void Build(const TrainingPlan& plan);

  // The latest plan that was built, if any.
  std::shared_ptr<const BuiltPlan> newest() const;

 private:
  struct Work;  // Shared with the thread.
  const std::shared_ptr<Work> work_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLAN_BUILDER_H_
