// What the fake controller (fake_controller.h) is asked about itself and its callers. Thread-safe.
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

// Each daemon's level is the one last asked for. Node "nowhere" is unknown. A backup is what the
// test says.
class FakeAdmin {
 public:
  FakeAdmin();
  ~FakeAdmin();
  void RegisterWith(grpc::ServerBuilder& builder);

  v1::SetLogLevelRequest last() const ABSL_LOCKS_EXCLUDED(mutex_);
  void SetBackup(std::vector<v1::BackupChunk> chunks) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What gRPC calls.
  class Calls;

  const std::unique_ptr<Calls> calls_;
  mutable absl::Mutex mutex_;
  std::map<std::string, v1::LogLevel> levels_ ABSL_GUARDED_BY(mutex_) = {{"", v1::LOG_LEVEL_INFO}};
  v1::SetLogLevelRequest last_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::BackupChunk> backup_ ABSL_GUARDED_BY(mutex_);
};

// Knows people by the tokens that a test has said.
class FakeIdentity {
 public:
  FakeIdentity();
  ~FakeIdentity();
  void RegisterWith(grpc::ServerBuilder& builder);

  // Of whoever shows the token: "paceline://operator/ann".
  void SetPrincipal(const std::string& token, const std::string& principal)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // How often somebody has asked who they are.
  int asked() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // What gRPC calls.
  class Calls;

  const std::unique_ptr<Calls> calls_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> principals_ ABSL_GUARDED_BY(mutex_);  // By what is shown.
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_ADMIN_H_
