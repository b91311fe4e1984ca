#include "controller/testing/tls_fixture.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/tls/credentials.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/tls_files.h"

namespace paceline {

ServerOptions TlsServerTest::Options() {
  ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory_, directory_ + "/address", ""};
  options.tls_dir = Issue({Role::kController, "c1"}, {"127.0.0.1", "localhost"});
  return options;
}

void TlsServerTest::Start(const ServerOptions& options) {
  server_ = std::make_unique<RunningServer>(options);
  EXPECT_TRUE(server_->failure().status.ok()) << server_->failure().status;
}

std::string TlsServerTest::Issue(const Principal& principal,
                                 const std::vector<std::string>& hosts) {
  const std::string dir =
      absl::StrCat(directory_, "/", RoleName(principal.role), "-", principal.name);
  WriteIdentity(dir, authority_, {principal, hosts, absl::Hours(1)});
  return dir;
}

std::shared_ptr<grpc::Channel> TlsServerTest::ChannelOf(const Principal& principal) {
  return grpc::CreateChannel(server_->Address("grpc"),
                             ChannelCredentials(FilesIn(Issue(principal))));
}

std::shared_ptr<grpc::Channel> TlsServerTest::ChannelOfNobody() {
  const std::string ca = FilesIn(Issue({Role::kViewer, "unused"})).ca;
  return grpc::CreateChannel(server_->Address("grpc"), ChannelCredentials({ca, "", ""}));
}

void TlsServerTest::Prepare(grpc::ClientContext& context, const std::string& token) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
}

}  // namespace paceline
