// A control without a daemon; it remembers the latest reports.
#ifndef WORKER_TRAINER_TESTING_FAKE_CONTROL_H_
#define WORKER_TRAINER_TESTING_FAKE_CONTROL_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Thread-safe.
class FakeControl : public Control {
 public:
  absl::StatusOr<TrainerConfig> WaitForConfig() override { return TrainerConfig(); }
  void SetReady(int /*store_port*/, const std::string& /*no_slipstream*/) override {}
  void SetMembershipListener(std::function<void(const Assignment&)> listener) override {
    const absl::MutexLock lock(&listener_mu_);
    listener_ = std::move(listener);
  }
  void SetPlanListener(std::function<void(const TrainingPlan&)> /*on_plan*/) override {}
  void SetCheckpointListener(std::function<void(const CheckpointPlan&)> /*on_plan*/) override {}
  std::optional<ProfileRequest> profile_request() const override { return std::nullopt; }
  void SetRunning() override {}
  void SetMembership(const MembershipStatus& status) override {
    const absl::MutexLock lock(&mu_);
    membership_ = status;
  }
  void SetEvaluation(const EvaluationResult& /*result*/) override {}
  void DropEvaluationAfter(int64_t /*step*/) override {}
  void SetPlanStatus(const PlanStatus& status) override {
    const absl::MutexLock lock(&mu_);
    status_ = status;
  }
  void SetFigures(const RankFigures& /*figures*/) override {}
  void SetProfile(const ProfileResult& /*result*/) override {}
  void SetSave(const SaveStatus& /*status*/) override {}
  void SetCheckpointFigures(const CheckpointFigures& /*figures*/) override {}
  void SetArtifact(const Artifact& /*artifact*/) override {}
  int Finish(const absl::Status& /*status*/) override { return 0; }

  // Acts as the daemon.
  void Assign(const Assignment& assignment) {
    const absl::MutexLock lock(&listener_mu_);
    if (listener_ != nullptr) listener_(assignment);
  }
  void RequestStop() { stop_requested_ = true; }

  PlanStatus status() const {
    const absl::MutexLock lock(&mu_);
    return status_;
  }
  MembershipStatus membership() const {
    const absl::MutexLock lock(&mu_);
    return membership_;
  }
  // Waits until the plan is prepared, or could not be.
  void AwaitPrepared(int64_t version) const {
    const auto prepared = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return status_.prepared_version >= version || status_.failed_version >= version;
    };
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&prepared));
  }

 private:
  absl::Mutex listener_mu_;  // Held during a call.
  std::function<void(const Assignment&)> listener_ ABSL_GUARDED_BY(listener_mu_);
  mutable absl::Mutex mu_;
  PlanStatus status_ ABSL_GUARDED_BY(mu_);
  MembershipStatus membership_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_FAKE_CONTROL_H_
