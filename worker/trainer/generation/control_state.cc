#include "worker/trainer/generation/control_state.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"
#include "common/log.h"
#include "worker/trainer/config_from_proto.h"
#include "worker/trainer/messages_from_proto.h"

namespace paceline {

ControlState::ControlState(std::string directory, const v1::TrainerId& id)
    : directory_(std::move(directory)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  *status_.mutable_id() = id;
  status_.set_pid(getpid());
  status_.set_state(v1::TRAINER_STARTING);
}

ControlState::~ControlState() { close(wake_fd_); }

void ControlState::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is awake anyway.
  if (write(wake_fd_, &one, sizeof(one)) < 0) return;
}

void ControlState::TakeWake() {
  uint64_t ignored;
  if (read(wake_fd_, &ignored, sizeof(ignored)) < 0) return;
}

std::optional<std::string> ControlState::TakeUnsent() {
  absl::MutexLock lock(&mutex_);
  if (!std::exchange(unsent_, false)) return std::nullopt;
  return status_.SerializeAsString();
}

void ControlState::MarkUnsent() {
  absl::MutexLock lock(&mutex_);
  unsent_ = true;
}

bool ControlState::unsent() const {
  absl::MutexLock lock(&mutex_);
  return unsent_;
}

v1::TrainerState ControlState::state() const {
  absl::MutexLock lock(&mutex_);
  return status_.state();
}

void ControlState::WriteLastWords() {
  std::string bytes;
  {
    absl::MutexLock lock(&mutex_);
    bytes = status_.SerializeAsString();
  }
  const absl::Status written = WriteFileAtomically(directory_ + "/status", {bytes});
  if (!written.ok()) PACELINE_LOG(ERROR) << "last words lost: " << written.message();
}

void ControlState::SetCommand(v1::TrainerCommand command) {
  absl::MutexLock lock(&mutex_);
  if (command_.has_config()) *command.mutable_config() = command_.config();
  if (command.store_address().empty()) command.set_store_address(command_.store_address());
  // A restarted daemon may know less than before.
  const v1::Membership& known = command_.membership();
  if (command.membership().generation() < known.generation()) {
    *command.mutable_membership() = known;
  } else if (command.membership().generation() == known.generation() &&
             command.membership().store_address().empty() && command.has_membership()) {
    command.mutable_membership()->set_store_address(known.store_address());
  }
  if (command.plan().version() < command_.plan().version()) {
    *command.mutable_plan() = command_.plan();
  }
  if (command.profile().id() < command_.profile().id()) {
    *command.mutable_profile() = command_.profile();
  }
  if (command.checkpoints().save().number() < command_.checkpoints().save().number()) {
    *command.mutable_checkpoints()->mutable_save() = command_.checkpoints().save();
    *command.mutable_checkpoints()->mutable_directories() = command_.checkpoints().directories();
  }
  command_ = std::move(command);
  has_profile_.store(command_.has_profile(), std::memory_order_release);
}

absl::StatusOr<TrainerConfig> ControlState::WaitForConfig() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](ControlState* self)
           ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) { return self->command_.has_config(); },
      this));
  return ConfigFromProto(command_.config());
}

std::optional<ProfileRequest> ControlState::profile_request() const {
  if (!has_profile_.load(std::memory_order_acquire)) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  return ProfileRequestFromProto(command_.profile());
}

bool ControlState::ends_when_asked() const {
  absl::MutexLock lock(&mutex_);
  return command_.stopping() || command_.config().spec().checkpoint().directory().empty();
}

void ControlState::SetMembershipListener(std::function<void(const Assignment&)> on_assignment) {
  {
    absl::MutexLock lock(&listener_mutex_);
    on_assignment_ = std::move(on_assignment);
    reported_membership_.reset();
  }
  Wake();
}

void ControlState::SetPlanListener(std::function<void(const TrainingPlan&)> on_plan) {
  {
    absl::MutexLock lock(&listener_mutex_);
    on_plan_ = std::move(on_plan);
    reported_version_ = 0;
  }
  Wake();
}

void ControlState::SetCheckpointListener(std::function<void(const CheckpointPlan&)> on_plan) {
  {
    absl::MutexLock lock(&listener_mutex_);
    on_checkpoints_ = std::move(on_plan);
    reported_checkpoints_.reset();
  }
  Wake();
}

void ControlState::CallListeners() {
  absl::MutexLock lock(&listener_mutex_);
  CallMembershipListener();
  CallPlanListener();
  CallCheckpointListener();
}

void ControlState::CallMembershipListener() {
  if (on_assignment_ == nullptr) return;
  absl::StatusOr<Assignment> assignment;
  {
    absl::MutexLock lock(&mutex_);
    v1::Membership wanted = command_.membership();
    if (!command_.has_membership()) {
      wanted.set_generation(command_.config().id().generation());
      wanted.set_rank(command_.config().id().rank());
      wanted.set_world_size(command_.config().world_size());
      wanted.set_shards(command_.config().spec().shards());
      wanted.set_store_address(command_.store_address());
    }
    std::string bytes = wanted.SerializeAsString();
    if (reported_membership_ == bytes) return;
    reported_membership_ = std::move(bytes);
    Member configured;
    configured.batch = command_.config().spec().batch_per_rank();
    configured.accumulation_steps =
        std::max<int64_t>(1, command_.config().spec().accumulation_steps());
    assignment = AssignmentFromProto(wanted, configured);
    if (assignment.ok()) assignment->plan = PlanFromProto(command_.plan());
  }
  if (assignment.ok()) return on_assignment_(*assignment);
  PACELINE_LOG(ERROR) << assignment.status().message();
}

void ControlState::CallPlanListener() {
  if (on_plan_ == nullptr) return;
  TrainingPlan plan;
  {
    absl::MutexLock lock(&mutex_);
    if (command_.plan().version() <= reported_version_) return;
    reported_version_ = command_.plan().version();
    plan = PlanFromProto(command_.plan());
  }
  on_plan_(plan);
}

void ControlState::CallCheckpointListener() {
  if (on_checkpoints_ == nullptr) return;
  CheckpointPlan plan;
  {
    absl::MutexLock lock(&mutex_);
    std::string wanted = command_.checkpoints().SerializeAsString();
    if (reported_checkpoints_ == wanted) return;
    reported_checkpoints_ = std::move(wanted);
    plan = CheckpointPlanFromProto(command_.checkpoints());
  }
  on_checkpoints_(plan);
}

}  // namespace paceline
