// The fake controller's (fake_controller.h) daemons and callers. Thread-safe.
#ifndef CLI_TESTING_FAKE_ADMIN_H_
#define CLI_TESTING_FAKE_ADMIN_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/admin.pb.h"

namespace grpc {
class ServerBuilder;
}

namespace paceline {

// Each daemon has the level last asked for. Node "nowhere" is unknown. The test provides the
// backup.
class FakeAdmin {
 public:
  FakeAdmin();
  ~FakeAdmin();
  void RegisterWith(grpc::ServerBuilder& builder);

  v1::SetLogLevelRequest last() const ABSL_LOCKS_EXCLUDED(mutex_);
  void SetBackup(std::vector<v1::BackupChunk> chunks) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The service for gRPC.
  class Calls;

  const std::unique_ptr<Calls> calls_;
  mutable absl::Mutex mutex_;
  std::map<std::string, v1::LogLevel> levels_ ABSL_GUARDED_BY(mutex_) = {{"", v1::LOG_LEVEL_INFO}};
  v1::SetLogLevelRequest last_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::BackupChunk> backup_ ABSL_GUARDED_BY(mutex_);
};

// Knows users by the tokens that the test registers.
class FakeIdentity {
 public:
  FakeIdentity();
  ~FakeIdentity();
  void RegisterWith(grpc::ServerBuilder& builder);

  // Sets the principal of a token: "paceline://operator/ann".
  void SetPrincipal(const std::string& token, const std::string& principal)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // How often WhoAmI was called.
  int asked() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The service for gRPC.
  class Calls;

  const std::unique_ptr<Calls> calls_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> principals_ ABSL_GUARDED_BY(mutex_);  // By token.
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_ADMIN_H_
