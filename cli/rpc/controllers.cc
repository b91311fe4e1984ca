#include "cli/rpc/controllers.h"

#include <utility>

#include "common/not_leader.h"

namespace paceline {

Controllers::Controllers(std::vector<std::string> addresses, bool plaintext, Connect connect)
    : connect_(std::move(connect)), leader_(std::move(addresses), plaintext) {}

bool Controllers::several() const {
  const absl::MutexLock lock(&mutex_);
  return leader_.several();
}

std::string Controllers::address() const {
  const absl::MutexLock lock(&mutex_);
  return leader_.current();
}

std::shared_ptr<grpc::Channel> Controllers::channel() const {
  const absl::MutexLock lock(&mutex_);
  std::shared_ptr<grpc::Channel>& channel = channels_[leader_.current()];
  if (channel == nullptr) channel = connect_(leader_.current(), leader_.several());
  return channel;
}

void Controllers::Answered(const std::string& address) {
  const absl::MutexLock lock(&mutex_);
  if (leader_.current() == address) leader_.Answered();
}

bool Controllers::Failed(const std::string& address, const grpc::Status& status) {
  const absl::MutexLock lock(&mutex_);
  if (leader_.current() != address) return true;
  return leader_.Failed(LeaderNamedIn(status).value_or(""));
}

}  // namespace paceline
