// Reports to the daemon how far the trainer is with each new plan.
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
  // `control` must outlive this.
  explicit PlanProgress(Control& control) : control_(control) {}

  // Whether `version` is greater than in all earlier calls.
  bool IsNew(int64_t version);

  // Reports the change to Control.
  void SetPrepared(int64_t version);
  void SetActive(int64_t version, int64_t first_step);
  void SetFailed(int64_t version, const std::string& error);

 private:
  void Change(const std::function<void(PlanStatus&)>& change);

  Control& control_;
  absl::Mutex mu_;  // Held during calls of Control, to keep their order.
  PlanStatus status_ ABSL_GUARDED_BY(mu_);
  int64_t known_version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_PLAN_PROGRESS_H_
