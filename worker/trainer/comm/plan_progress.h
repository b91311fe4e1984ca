// What becomes of the plans that a trainer hears of, for its daemon.
//
// Thread-safe.
#ifndef WORKER_TRAINER_COMM_PLAN_PROGRESS_H_
#define WORKER_TRAINER_COMM_PLAN_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

class PlanProgress {
 public:
  // `control` outlives this.
  explicit PlanProgress(Control& control) : control_(control) {}

  // Whether its epoch is above all that this was asked for before.
  bool IsNew(int64_t epoch);

  // Told to Control.
  void SetPrepared(int64_t epoch);
  void SetActive(int64_t epoch, int64_t first_step);
  void SetFailed(int64_t epoch, const std::string& error);

 private:
  void Change(const std::function<void(PlanStatus&)>& change);

  Control& control_;
  absl::Mutex mu_;  // Held while Control is told, so that it hears of the changes in their order.
  PlanStatus status_ ABSL_GUARDED_BY(mu_);
  int64_t known_epoch_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLAN_PROGRESS_H_
