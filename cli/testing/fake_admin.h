// The AdminService of the fake controller: each daemon's level is the one last asked for. Node
// "nowhere" is unknown. A backup is what the test says. Thread-safe.
#ifndef CLI_TESTING_FAKE_ADMIN_H_
#define CLI_TESTING_FAKE_ADMIN_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "proto/admin.grpc.pb.h"

namespace paceline {

class FakeAdmin : public v1::AdminService::Service {
 public:
  v1::SetLogLevelRequest last() const {
    const absl::MutexLock lock(&mutex_);
    return last_;
  }
  void SetBackup(std::vector<v1::BackupChunk> chunks) {
    const absl::MutexLock lock(&mutex_);
    backup_ = std::move(chunks);
  }

 private:
  grpc::Status GetLogLevel(grpc::ServerContext*, const v1::GetLogLevelRequest* request,
                           v1::LogLevelReply* reply) override {
    const absl::MutexLock lock(&mutex_);
    reply->set_level(levels_[request->node()]);
    return Known(request->node());
  }
  grpc::Status SetLogLevel(grpc::ServerContext*, const v1::SetLogLevelRequest* request,
                           v1::LogLevelReply* reply) override {
    const absl::MutexLock lock(&mutex_);
    last_ = *request;
    levels_[request->node()] = request->level();
    reply->set_level(request->level());
    return Known(request->node());
  }
  grpc::Status Backup(grpc::ServerContext*, const v1::BackupRequest*,
                      grpc::ServerWriter<v1::BackupChunk>* writer) override {
    const absl::MutexLock lock(&mutex_);
    for (const v1::BackupChunk& chunk : backup_) writer->Write(chunk);
    return grpc::Status::OK;
  }
  static grpc::Status Known(const std::string& node) {
    return node == "nowhere" ? grpc::Status(grpc::StatusCode::NOT_FOUND, "no such node")
                             : grpc::Status::OK;
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, v1::LogLevel> levels_ ABSL_GUARDED_BY(mutex_) = {{"", v1::LOG_LEVEL_INFO}};
  v1::SetLogLevelRequest last_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::BackupChunk> backup_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_ADMIN_H_
