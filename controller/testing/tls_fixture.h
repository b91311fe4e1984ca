// A controller with TLS over real sockets, and clients with certificates, or without any.
#ifndef CONTROLLER_TESTING_TLS_FIXTURE_H_
#define CONTROLLER_TESTING_TLS_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/credentials.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/tls_files.h"
#include "controller/testing/running_server.h"

namespace paceline {

class TlsServerTest : public ::testing::Test {
 protected:
  // Of a server that can be started: with them, or with some changed.
  ServerOptions Options() {
    ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory_, directory_ + "/address", ""};
    options.tls_dir = Issue({Role::kController, "c1"}, {"127.0.0.1", "localhost"});
    return options;
  }
  void Start(const ServerOptions& options) {
    server_ = std::make_unique<RunningServer>(options);
    EXPECT_TRUE(server_->failure().status.ok()) << server_->failure().status;
  }

  // The folder of the principal's files.
  std::string Issue(const Principal& principal, const std::vector<std::string>& hosts = {}) {
    const std::string dir =
        absl::StrCat(directory_, "/", RoleName(principal.role), "-", principal.name);
    WriteIdentity(dir, authority_, {principal, hosts, absl::Hours(1)});
    return dir;
  }

  std::shared_ptr<grpc::Channel> ChannelOf(const Principal& principal) {
    return grpc::CreateChannel(server_->Address("grpc"),
                               ChannelCredentials(FilesIn(Issue(principal))));
  }
  // Proves nothing of itself.
  std::shared_ptr<grpc::Channel> ChannelOfNobody() {
    const std::string ca = FilesIn(Issue({Role::kViewer, "unused"})).ca;
    return grpc::CreateChannel(server_->Address("grpc"), ChannelCredentials({ca, "", ""}));
  }

  static void Prepare(grpc::ClientContext& context, const std::string& token = "") {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  }

  const std::string directory_ = NewDirectory();
  const CertificateAuthority authority_ = TestAuthority();
  std::unique_ptr<RunningServer> server_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_TLS_FIXTURE_H_
