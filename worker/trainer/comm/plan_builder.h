// Builds the communicators of training plans on a thread of its own, beside the training.
#ifndef WORKER_TRAINER_COMM_PLAN_BUILDER_H_
#define WORKER_TRAINER_COMM_PLAN_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"

namespace paceline {

// A plan whose groups are all connected. They close with the last plan that holds them.
struct BuiltPlan {
  TrainingPlan plan;
  std::vector<std::shared_ptr<Group>> levels;  // This rank's group of each level.
  std::shared_ptr<Group> gradients;            // That of the gradients after the warm-up.
  // Of Slipstream, all ranks each; null without. Headers are on the host.
  std::shared_ptr<Group> headers;
  std::shared_ptr<Group> payloads;
};

// Collective. Groups of the same members and use that `active` has, the plan that all ranks
// train by, are taken over; null: there is none. The others are new, also if another plan has
// them: that one may have failed on some of their members.
BuiltPlan BuildPlan(Groups& groups, TrainingPlan plan, int rank, const BuiltPlan* active);

// The first plan of a generation, that of rank 0. Collective. Throws std::invalid_argument when it
// does not fit the job.
std::shared_ptr<const BuiltPlan> BuildFirstPlan(Groups& groups, const TrainerConfig& config,
                                                const TrainingPlan& plan);

// Thread-safe.
class PlanBuilder {
 public:
  // Called on the thread, in the order of the plans; not after the destructor.
  struct Events {
    std::function<void(int64_t epoch)> built;
    std::function<void(int64_t epoch, const std::string& error)> failed;
  };

  PlanBuilder(const Groups& groups, int rank, Events events);
  // Does not wait for a plan that is being built: a member that never comes would hold up all that
  // follows. The thread then ends by itself, when the groups' timeout lets it.
  ~PlanBuilder();

  // The plan that the rank trains by from now on.
  void SetActive(std::shared_ptr<const BuiltPlan> active);

  // Builds this plan after the one in work; one that waits is replaced.
  void Build(const TrainingPlan& plan);

  // The latest that is built, if any.
  std::shared_ptr<const BuiltPlan> newest() const;

 private:
  struct Work;  // Shared with the thread.
  const std::shared_ptr<Work> work_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLAN_BUILDER_H_
