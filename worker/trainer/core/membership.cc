#include "worker/trainer/core/membership.h"

#include <algorithm>

namespace paceline {

void MembershipState::OnOrder(const MembershipOrder& order) {
  if (order.generation < order_.generation) return;
  const bool had_store = order.generation == order_.generation && order_.has_store;
  order_ = order;
  order_.has_store = order.has_store || had_store;
}

void MembershipState::OnRendezvousDone(int64_t generation) {
  present_ = trained_ = generation;
  rendezvous_ = 0;
  waiting_since_.reset();
  error_.clear();
}

void MembershipState::OnFailed(const std::string& error, absl::Time now) {
  over_ = std::max(over_, present());
  present_ = rendezvous_ = 0;
  error_ = error;
  waiting_since_ = now;
  gave_up_ = gave_up_ || !recovers_;
}

void MembershipState::OnConnected(int64_t generation) {
  connected_ = std::max(connected_, generation);
}

void MembershipState::OnConnectFailed(int64_t generation) {
  unconnectable_ = std::max(unconnectable_, generation);
}

void MembershipState::OnLeft(absl::Time now) {
  over_ = std::max(over_, present_);
  present_ = 0;
  error_.clear();
  waiting_since_ = now;
}

absl::Time MembershipState::give_up_at() const {
  if (!waiting_since_.has_value()) return absl::InfiniteFuture();
  if (gave_up_) return *waiting_since_;
  // A spare may wait for ever.
  const bool spare = order_.generation > over_ && order_.rank < 0;
  return spare ? absl::InfiniteFuture() : *waiting_since_ + give_up_;
}

MembershipState::Step MembershipState::Next(absl::Time now) const {
  const int64_t newest = order_.generation;
  if (present_ != 0) {
    if (newest <= present_) return {Action::kTrain, present_};
    if (!order_.planned) return {Action::kLeave, present_};
    if (order_.rank < 0 && !order_.hands_over) return {Action::kAgree, newest};
    if (connected_ >= newest) return {Action::kAgree, newest};
    if (unconnectable_ >= newest || !order_.has_store) return {Action::kTrain, present_};
    return {Action::kConnect, newest};
  }
  if (rendezvous_ != 0) {
    return {newest > rendezvous_ ? Action::kLeave : Action::kRendezvous, rendezvous_};
  }
  if (loaded_ && newest > over_ && order_.rank >= 0 && order_.has_store && !gave_up_) {
    return {Action::kRendezvous, newest};
  }
  if (now >= give_up_at()) return {Action::kGiveUp, newest};
  return {};
}

}  // namespace paceline
