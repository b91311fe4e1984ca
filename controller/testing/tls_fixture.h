// A controller with TLS over real sockets, and clients with or without certificates.
#ifndef CONTROLLER_TESTING_TLS_FIXTURE_H_
#define CONTROLLER_TESTING_TLS_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/identity/principal.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/testing/test_identity.h"
#include "controller/testing/running_server.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace paceline {

class TlsServerTest : public ::testing::Test {
 protected:
  // Options of a server that can start; tests may change some.
  ServerOptions Options();
  void Start(const ServerOptions& options);

  // Issues a certificate; returns the folder of the principal's files.
  std::string Issue(const Principal& principal, const std::vector<std::string>& hosts = {});

  std::shared_ptr<grpc::Channel> ChannelOf(const Principal& principal);
  // A client that proves no identity.
  std::shared_ptr<grpc::Channel> ChannelOfNobody();

  static void Prepare(grpc::ClientContext& context, const std::string& token = "");

  const std::string directory_ = NewDirectory();
  const CertificateAuthority authority_ = TestAuthority();
  std::unique_ptr<RunningServer> server_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_TLS_FIXTURE_H_
