#include "cli/testing/fake_admin.h"

#include <utility>

#include "grpcpp/grpcpp.h"
#include "proto/admin.grpc.pb.h"
#include "proto/identity.grpc.pb.h"

namespace paceline {

class FakeAdmin::Calls : public v1::AdminService::Service {
 public:
  explicit Calls(FakeAdmin& fake) : fake_(fake) {}

  grpc::Status GetLogLevel(grpc::ServerContext*, const v1::GetLogLevelRequest* request,
                           v1::LogLevelReply* reply) override {
    const absl::MutexLock lock(&fake_.mutex_);
    reply->set_level(fake_.levels_[request->node()]);
    return Known(request->node());
  }
  grpc::Status SetLogLevel(grpc::ServerContext*, const v1::SetLogLevelRequest* request,
                           v1::LogLevelReply* reply) override {
    const absl::MutexLock lock(&fake_.mutex_);
    fake_.last_ = *request;
    fake_.levels_[request->node()] = request->level();
    reply->set_level(request->level());
    return Known(request->node());
  }
  grpc::Status Backup(grpc::ServerContext*, const v1::BackupRequest*,
                      grpc::ServerWriter<v1::BackupChunk>* writer) override {
    const absl::MutexLock lock(&fake_.mutex_);
    for (const v1::BackupChunk& chunk : fake_.backup_) writer->Write(chunk);
    return grpc::Status::OK;
  }

 private:
  static grpc::Status Known(const std::string& node) {
    return node == "nowhere" ? grpc::Status(grpc::StatusCode::NOT_FOUND, "no such node")
                             : grpc::Status::OK;
  }

  FakeAdmin& fake_;
};

FakeAdmin::FakeAdmin() : calls_(std::make_unique<Calls>(*this)) {}

FakeAdmin::~FakeAdmin() = default;

void FakeAdmin::RegisterWith(grpc::ServerBuilder& builder) {
  builder.RegisterService(calls_.get());
}

v1::SetLogLevelRequest FakeAdmin::last() const {
  const absl::MutexLock lock(&mutex_);
  return last_;
}

void FakeAdmin::SetBackup(std::vector<v1::BackupChunk> chunks) {
  const absl::MutexLock lock(&mutex_);
  backup_ = std::move(chunks);
}

class FakeIdentity::Calls : public v1::IdentityService::Service {
 public:
  explicit Calls(FakeIdentity& fake) : fake_(fake) {}

  grpc::Status WhoAmI(grpc::ServerContext* context, const v1::WhoAmIRequest*,
                      v1::WhoAmIResponse* response) override {
    const absl::MutexLock lock(&fake_.mutex_);
    ++fake_.asked_;
    const auto shown = context->client_metadata().find("authorization");
    if (shown == context->client_metadata().end()) return grpc::Status::OK;
    const auto known =
        fake_.principals_.find(std::string(shown->second.data(), shown->second.size()));
    if (known != fake_.principals_.end()) response->set_principal(known->second);
    return grpc::Status::OK;
  }

 private:
  FakeIdentity& fake_;
};

FakeIdentity::FakeIdentity() : calls_(std::make_unique<Calls>(*this)) {}

FakeIdentity::~FakeIdentity() = default;

void FakeIdentity::RegisterWith(grpc::ServerBuilder& builder) {
  builder.RegisterService(calls_.get());
}

void FakeIdentity::SetPrincipal(const std::string& token, const std::string& principal) {
  const absl::MutexLock lock(&mutex_);
  principals_["Bearer " + token] = principal;
}

int FakeIdentity::asked() const {
  const absl::MutexLock lock(&mutex_);
  return asked_;
}

}  // namespace paceline
