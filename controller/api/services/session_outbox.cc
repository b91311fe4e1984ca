#include "controller/api/services/session_outbox.h"

#include <utility>

#include "common/tls/key_and_request.h"

namespace paceline {

bool SessionOutbox::Queue(v1::ControllerMessage message) {
  if (queue_.size() >= kMaxQueued) {
    queue_.clear();
    return false;
  }
  queue_.push_back(std::move(message));
  return true;
}

bool SessionOutbox::SetPlan(v1::NodePlan plan) {
  std::string digest = Sha256Hex(plan.SerializeAsString());
  if (digest == last_plan_) return false;
  last_plan_ = std::move(digest);
  plan.set_revision(++revision_);
  plan_ = std::move(plan);
  return true;
}

std::optional<v1::ControllerMessage> SessionOutbox::Next() {
  v1::ControllerMessage message;
  if (!queue_.empty()) {
    message = std::move(queue_.front());
    queue_.pop_front();
  } else if (plan_.has_value()) {
    *message.mutable_plan() = *std::exchange(plan_, std::nullopt);
  } else if (answered_.has_value()) {
    message.mutable_lease()->set_report_number(*std::exchange(answered_, std::nullopt));
  } else {
    return std::nullopt;
  }
  return message;
}

}  // namespace paceline
