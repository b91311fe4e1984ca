// The controllers that a client knows, and the one that it currently calls.
//
// Thread-safe.
#ifndef CLI_RPC_CONTROLLERS_H_
#define CLI_RPC_CONTROLLERS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/leader_address.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"

namespace paceline {

class Controllers {
 public:
  // `connect(address, several)` makes a channel. `plaintext`: as in LeaderAddress.
  using Connect = std::function<std::shared_ptr<grpc::Channel>(const std::string&, bool)>;
  Controllers(std::vector<std::string> addresses, bool plaintext, Connect connect);

  bool several() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::string address() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Channel to `address()`; connects at the first call.
  std::shared_ptr<grpc::Channel> channel() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Report how a call to `address` went. Failed: as in LeaderAddress; does nothing if the client
  // has already turned to another address.
  void Answered(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Failed(const std::string& address, const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Connect connect_;
  mutable absl::Mutex mutex_;
  LeaderAddress leader_ ABSL_GUARDED_BY(mutex_);
  mutable std::map<std::string, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // CLI_RPC_CONTROLLERS_H_
