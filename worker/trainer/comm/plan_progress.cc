#include "worker/trainer/comm/plan_progress.h"

#include <algorithm>

#include "common/log.h"

namespace paceline {

bool PlanProgress::IsNew(int64_t epoch) {
  const absl::MutexLock lock(&mu_);
  const bool is_new = epoch > known_epoch_;
  known_epoch_ = std::max(known_epoch_, epoch);
  return is_new;
}

void PlanProgress::Change(const std::function<void(PlanStatus&)>& change) {
  const absl::MutexLock lock(&mu_);
  change(status_);
  control_.SetPlanStatus(status_);
}

void PlanProgress::SetPrepared(int64_t epoch) {
  PACELINE_LOG(INFO) << "plan prepared epoch=" << epoch;
  Change([epoch](PlanStatus& status) {
    status.prepared_epoch = epoch;
    if (status.failed_epoch > epoch) return;
    status.failed_epoch = 0;
    status.error.clear();
  });
}

void PlanProgress::SetActive(int64_t epoch, int64_t first_step) {
  Change([&](PlanStatus& status) {
    status.active_epoch = epoch;
    status.prepared_epoch = std::max(status.prepared_epoch, epoch);
    status.active_since_step = first_step;
  });
}

void PlanProgress::SetFailed(int64_t epoch, const std::string& error) {
  PACELINE_LOG(ERROR) << "plan epoch=" << epoch << " cannot be prepared and is left out: " << error;
  Change([&](PlanStatus& status) {
    if (status.failed_epoch > epoch) return;
    status.failed_epoch = epoch;
    status.error = error;
  });
}

}  // namespace paceline
