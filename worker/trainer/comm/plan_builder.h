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

// A plan whose groups are all connected.
struct BuiltPlan {
  TrainingPlan plan;
  std::vector<Group*> levels;  // This rank's group of each level.
  Group* gradients = nullptr;  // That of the gradients after the warm-up.
};

// Collective.
BuiltPlan BuildPlan(Groups& groups, TrainingPlan plan, int rank);

// Thread-safe.
class PlanBuilder {
 public:
  // `on_built` is called on the thread. `groups` outlives this.
  PlanBuilder(Groups& groups, int rank, std::function<void(int64_t epoch)> on_built);
  // Waits for a plan that is being built, as long as the groups' timeout lets it.
  ~PlanBuilder();

  // Builds this plan after the one in work; one that waits is replaced. One that cannot be
  // built is logged and left out.
  void Build(const TrainingPlan& plan);

  // The latest that is built, if any.
  std::shared_ptr<const BuiltPlan> newest() const;

  // Whether a plan that is built, in work or waiting has this group.
  bool Needs(const std::vector<int>& ranks, const std::string& use) const;

 private:
  void Run();

  Groups& groups_;
  const int rank_;
  const std::function<void(int64_t)> on_built_;

  mutable absl::Mutex mu_;
  std::optional<TrainingPlan> waiting_ ABSL_GUARDED_BY(mu_);
  std::optional<TrainingPlan> in_work_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const BuiltPlan> newest_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLAN_BUILDER_H_
