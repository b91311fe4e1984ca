#include "worker/trainer/generation/conductor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace paceline {
namespace {

using Action = MembershipState::Action;

// How often to look for a stop request, which the mutex cannot wait for.
constexpr absl::Duration kPatience = absl::Milliseconds(50);

absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

Conductor::Conductor(Control& control, const RecoveryConfig& recovery,
                     std::function<void()> end_collectives)
    : control_(control),
      end_collectives_(std::move(end_collectives)),
      state_(recovery.enabled, recovery.give_up) {
  control_.SetMembershipListener([this](const Assignment& one) { OnAssignment(one); });
}

Conductor::~Conductor() { control_.SetMembershipListener(nullptr); }

void Conductor::OnAssignment(const Assignment& assignment) {
  const absl::MutexLock lock(&mu_);
  const Member& member = assignment.member;
  if (member.generation < newest_.member.generation) return;
  newest_ = assignment;
  state_.OnOrder({member.generation, member.rank, !assignment.store_address.empty(),
                  assignment.planned, assignment.hand_over_rank.has_value()});
  const MembershipState::Step next = state_.Next(MonotonicNow());
  is_planned_.store(next.action == Action::kConnect || next.action == Action::kAgree,
                    std::memory_order_release);
  if (next.action != Action::kLeave || is_over()) return;
  End();
  PACELINE_LOG(INFO) << "generation=" << next.generation << " replaced by=" << member.generation;
}

void Conductor::End() {
  is_over_.store(true, std::memory_order_release);
  ended_at_ = MonotonicNow();
  end_collectives_();
}

absl::Duration Conductor::since_end() const {
  const absl::MutexLock lock(&mu_);
  return MonotonicNow() - ended_at_;
}

void Conductor::Tell() {
  MembershipStatus status;
  status.generation = state_.trained_generation();
  status.waiting = state_.waiting();
  status.error = state_.error();
  status.step = step_;
  status.ready_generation = state_.ready_generation();
  status.left_generation = state_.left_generation();
  status.copies = copies_;
  control_.SetMembership(status);
}

void Conductor::SetLoaded(int64_t step) {
  const absl::MutexLock lock(&mu_);
  step_ = step;
  state_.OnLoaded();
  Tell();
}

absl::StatusOr<std::optional<Assignment>> Conductor::WaitForRendezvous() {
  const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return state_.Next(MonotonicNow()).action != Action::kWait;
  };
  const absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&has_news), kPatience)) {
    if (control_.stop_requested()) return std::nullopt;
  }
  const MembershipState::Step next = state_.Next(MonotonicNow());
  if (next.action == Action::kGiveUp) {
    return absl::UnavailableError(state_.error().empty() ? "no generation to train in came in time"
                                                         : state_.error());
  }
  state_.OnRendezvous(next.generation);
  is_over_.store(false, std::memory_order_release);
  is_planned_.store(false, std::memory_order_release);
  return newest_;
}

void Conductor::SetRendezvousDone(int64_t step) {
  const absl::MutexLock lock(&mu_);
  step_ = step;
  state_.OnRendezvousDone(state_.present());
  Tell();
}

void Conductor::EndCollectives() {
  const absl::MutexLock lock(&mu_);
  if (!is_over()) End();
}

void Conductor::SetFailed(const std::string& error, int64_t step) {
  const absl::MutexLock lock(&mu_);
  step_ = std::max<int64_t>(step, 0);
  if (step < 0) state_.OnStateLost();
  state_.OnFailed(error, MonotonicNow());
  Tell();
}

void Conductor::SetLeft(int64_t step) {
  const absl::MutexLock lock(&mu_);
  step_ = step;
  state_.OnLeft(MonotonicNow());
  Tell();
}

MembershipState::Step Conductor::Planned() const {
  if (!is_planned_.load(std::memory_order_acquire)) return {};
  const absl::MutexLock lock(&mu_);
  return state_.Next(MonotonicNow());
}

Assignment Conductor::newest() const {
  const absl::MutexLock lock(&mu_);
  return newest_;
}

void Conductor::SetCopies(const CopyReport& report) {
  const absl::MutexLock lock(&mu_);
  copies_ = report;
  Tell();
}

bool Conductor::HasSuccessor() const {
  const absl::MutexLock lock(&mu_);
  return newest_.member.generation > state_.present();
}

void Conductor::SetConnected(int64_t generation, bool connected) {
  const absl::MutexLock lock(&mu_);
  if (connected) {
    state_.OnConnected(generation);
  } else {
    state_.OnConnectFailed(generation);
  }
  Tell();
}

}  // namespace paceline
