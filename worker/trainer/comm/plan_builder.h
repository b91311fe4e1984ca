// Builds the communicators of training plans on a thread of its own, beside the training.
#ifndef WORKER_TRAINER_COMM_PLAN_BUILDER_H_
#define WORKER_TRAINER_COMM_PLAN_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"

namespace paceline {

// A plan whose groups are all connected. They close with the last plan that holds them.
struct BuiltPlan {
  TrainingPlan plan;
  std::vector<std::shared_ptr<Group>> levels;  // This rank's group of each level.
  std::shared_ptr<Group> gradients;            // That of the gradients after the warm-up.
};

// Collective. Groups of the same members and use that `active` has, the plan that all ranks
// train by, are taken over; null: there is none. The others are new, also if another plan has
// them: that one may have failed on some of their members.
BuiltPlan BuildPlan(Groups& groups, TrainingPlan plan, int rank, const BuiltPlan* active);

// Thread-safe.
class PlanBuilder {
 public:
  // Called on the thread, in the order of the plans.
  struct Events {
    std::function<void(int64_t epoch)> built;
    std::function<void(int64_t epoch, const std::string& error)> failed;
  };

  // `groups` outlives this.
  PlanBuilder(Groups& groups, int rank, Events events);
  // Waits for a plan that is being built, as long as the groups' timeout lets it.
  ~PlanBuilder();

  // The plan that the rank trains by from now on.
  void SetActive(std::shared_ptr<const BuiltPlan> active);

  // Builds this plan after the one in work; one that waits is replaced.
  void Build(const TrainingPlan& plan);

  // The latest that is built, if any.
  std::shared_ptr<const BuiltPlan> newest() const;

 private:
  void Run();

  Groups& groups_;
  const int rank_;
  const Events events_;

  mutable absl::Mutex mu_;
  std::optional<TrainingPlan> waiting_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const BuiltPlan> active_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const BuiltPlan> newest_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLAN_BUILDER_H_
