#include "worker/trainer/comm/plan_progress.h"

#include <algorithm>

#include "common/log.h"

namespace paceline {

bool PlanProgress::IsNew(int64_t version) {
  const absl::MutexLock lock(&mu_);
  const bool is_new = version > known_version_;
  known_version_ = std::max(known_version_, version);
  return is_new;
}

void PlanProgress::Change(const std::function<void(PlanStatus&)>& change) {
  const absl::MutexLock lock(&mu_);
  change(status_);
  control_.SetPlanStatus(status_);
}

void PlanProgress::SetPrepared(int64_t version) {
  PACELINE_LOG(INFO) << "plan prepared version=" << version;
  Change([version](PlanStatus& status) {
    status.prepared_version = version;
    if (status.failed_version > version) return;
    status.failed_version = 0;
    status.error.clear();
  });
}

void PlanProgress::SetActive(int64_t version, int64_t first_step) {
  Change([&](PlanStatus& status) {
    status.active_version = version;
    status.prepared_version = std::max(status.prepared_version, version);
    status.active_since_step = first_step;
  });
}

void PlanProgress::SetFailed(int64_t version, const std::string& error) {
  PACELINE_LOG(ERROR) << "plan version=" << version
                      << " cannot be prepared and is left out: " << error;
  Change([&](PlanStatus& status) {
    if (status.failed_version > version) return;
    status.failed_version = version;
    status.error = error;
  });
}

}  // namespace paceline
