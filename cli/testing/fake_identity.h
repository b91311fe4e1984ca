// The IdentityService of the fake controller: it knows people by the tokens that a test has said.
// Thread-safe.
#ifndef CLI_TESTING_FAKE_IDENTITY_H_
#define CLI_TESTING_FAKE_IDENTITY_H_

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "proto/identity.grpc.pb.h"

namespace paceline {

class FakeIdentity : public v1::IdentityService::Service {
 public:
  // Of whoever shows the token: "paceline://operator/ann".
  void SetPrincipal(const std::string& token, const std::string& principal) {
    const absl::MutexLock lock(&mutex_);
    principals_["Bearer " + token] = principal;
  }
  // How often somebody has asked who they are.
  int asked() const {
    const absl::MutexLock lock(&mutex_);
    return asked_;
  }

 private:
  grpc::Status WhoAmI(grpc::ServerContext* context, const v1::WhoAmIRequest*,
                      v1::WhoAmIResponse* response) override {
    const absl::MutexLock lock(&mutex_);
    ++asked_;
    const auto shown = context->client_metadata().find("authorization");
    if (shown == context->client_metadata().end()) return grpc::Status::OK;
    const auto known = principals_.find(std::string(shown->second.data(), shown->second.size()));
    if (known != principals_.end()) response->set_principal(known->second);
    return grpc::Status::OK;
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> principals_ ABSL_GUARDED_BY(mutex_);  // By what is shown.
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paceline

#endif  // CLI_TESTING_FAKE_IDENTITY_H_
