// What the fake controller was asked for.
#include <optional>
#include <string>
#include <vector>

#include "cli/testing/fake_controller.h"

namespace paceline {

std::vector<v1::SubmitJobRequest> FakeController::submits() const {
  const absl::MutexLock lock(&mutex_);
  return submits_;
}

std::string FakeController::code() const {
  const absl::MutexLock lock(&mutex_);
  return code_;
}

std::vector<v1::CancelJobRequest> FakeController::cancels() const {
  const absl::MutexLock lock(&mutex_);
  return cancels_;
}

std::vector<v1::WatchJobsRequest> FakeController::watches() const {
  const absl::MutexLock lock(&mutex_);
  return watches_;
}

std::vector<v1::StreamLogsRequest> FakeController::logs() const {
  const absl::MutexLock lock(&mutex_);
  return logs_;
}

std::vector<v1::ChangeModeRequest> FakeController::modes() const {
  const absl::MutexLock lock(&mutex_);
  return modes_;
}

std::vector<v1::ChangeLadderRequest> FakeController::ladders() const {
  const absl::MutexLock lock(&mutex_);
  return ladders_;
}

std::vector<v1::ProfileJobRequest> FakeController::profiles() const {
  const absl::MutexLock lock(&mutex_);
  return profiles_;
}

std::vector<v1::ResumeJobRequest> FakeController::resumes() const {
  const absl::MutexLock lock(&mutex_);
  return resumes_;
}

std::vector<v1::ApplyAdviceRequest> FakeController::applied() const {
  const absl::MutexLock lock(&mutex_);
  return applied_;
}

std::optional<std::string> FakeController::last_user() const {
  const absl::MutexLock lock(&mutex_);
  return last_user_;
}

std::optional<std::string> FakeController::last_authorization() const {
  const absl::MutexLock lock(&mutex_);
  return last_authorization_;
}

std::vector<v1::ChangeLabelsRequest> FakeController::relabels() const {
  const absl::MutexLock lock(&mutex_);
  return relabels_;
}

}  // namespace paceline
