// gRPC servers and clients that authenticate by certificates, and the probe's explanations when
// that fails.
#include "common/tls/credentials.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "common/tls/certificate.h"
#include "common/tls/handshake_probe.h"
#include "common/tls/testing/rude_server.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/testing/tls_get.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A server without services: only the connection matters.
class Serving {
 public:
  explicit Serving(const std::shared_ptr<grpc::ServerCredentials>& credentials,
                   const std::string& host = "127.0.0.1") {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(host + ":0", credentials, &port);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    address_ = host + ":" + std::to_string(port);
    if (server_ == nullptr) return;
    // gRPC accepts connections only while somebody waits for an event.
    thread_ = std::thread([this] {
      void* tag = nullptr;
      bool ok = false;
      while (queue_->Next(&tag, &ok)) {
      }
    });
  }
  ~Serving() {
    if (server_ == nullptr) return;
    server_->Shutdown();
    queue_->Shutdown();
    thread_.join();
  }
  const std::string& address() const { return address_; }
  bool serves() const { return server_ != nullptr; }

 private:
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::thread thread_;
};

// Whether a new channel can connect.
bool Connects(const std::string& address,
              const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
  grpc_connectivity_state state = channel->GetState(true);
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(20);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    if (!channel->WaitForStateChange(state, deadline)) return false;
    state = channel->GetState(true);
  }
  return state == GRPC_CHANNEL_READY;
}

class CredentialsTest : public ::testing::Test {
 protected:
  TlsFiles Files(const std::string& name, const CertificateAuthority& authority,
                 const CertificateAuthority::Grant& grant, absl::Time now = absl::Now()) {
    return WriteIdentity(root_ + "/" + name, authority, grant, now);
  }

  const std::string root_ = ::testing::TempDir() + "/credentials";
  const CertificateAuthority authority_ = TestAuthority(absl::Now() - absl::Hours(100));
  const TlsFiles controller_ = Files("controller", authority_, ControllerOnLoopback());
  const TlsFiles admin_ = Files("admin", authority_, {{Role::kAdmin, "ann"}, {}, absl::Hours(1)});
};

TEST_F(CredentialsTest, CertificatesOfTheSameAuthorityKnowEachOther) {
  const Serving server(ServerCredentials(controller_, /*require_client_certificate=*/true));
  EXPECT_TRUE(Connects(server.address(), ChannelCredentials(admin_)));
  EXPECT_EQ(ExplainConnection(server.address(), admin_, absl::Now()), "");
}

TEST_F(CredentialsTest, ControllerIsKnownByAnAddressOfIpv6) {
  const auto serve = [this](const std::string& name, const std::string& host) {
    return ServerCredentials(
        Files(name, authority_, {{Role::kController, "c"}, {host}, absl::Hours(1)}),
        /*require_client_certificate=*/true);
  };
  const Serving server(serve("six", "::1"), "[::1]");
  if (!server.serves()) GTEST_SKIP() << "this machine has no ::1";
  EXPECT_TRUE(Connects(server.address(), ChannelCredentials(admin_)));
  EXPECT_EQ(ExplainConnection(server.address(), admin_, absl::Now()), "");
  const Serving other(serve("seven", "fd00::7"), "[::1]");
  EXPECT_FALSE(Connects(other.address(), ChannelCredentials(admin_)));
  EXPECT_THAT(ExplainConnection(other.address(), admin_, absl::Now()),
              HasSubstr("does not name \"::1\""));
}

TEST_F(CredentialsTest, ServerOfAnotherAuthorityIsNotBelieved) {
  const CertificateAuthority other = TestAuthority();
  const Serving server(ServerCredentials(Files("other", other, ControllerOnLoopback()),
                                         /*require_client_certificate=*/false));
  EXPECT_FALSE(Connects(server.address(), ChannelCredentials(admin_)));
  EXPECT_THAT(ExplainConnection(server.address(), admin_, absl::Now()),
              HasSubstr("signed by another authority"));
}

TEST_F(CredentialsTest, WorkerCannotPlayTheController) {
  // Its certificate also has the host's name.
  const Serving server(
      ServerCredentials(Files("w", authority_, {{Role::kWorker, "127.0.0.1"}, {}, absl::Hours(1)}),
                        /*require_client_certificate=*/false));
  EXPECT_FALSE(Connects(server.address(), ChannelCredentials(admin_)));
  EXPECT_THAT(ExplainConnection(server.address(), admin_, absl::Now()),
              HasSubstr("is no controller's"));
}

TEST_F(CredentialsTest, ControllerIsBelievedUnderItsNamesOnly) {
  const Serving server(ServerCredentials(
      Files("far", authority_, {{Role::kController, "c"}, {"head.example.org"}, absl::Hours(1)}),
      /*require_client_certificate=*/false));
  EXPECT_FALSE(Connects(server.address(), ChannelCredentials(admin_)));
  EXPECT_THAT(ExplainConnection(server.address(), admin_, absl::Now()),
              HasSubstr("does not name \"127.0.0.1\""));
}

TEST_F(CredentialsTest, ServersClockIsNamedWhenItsCertificateDoesNotHold) {
  const Serving server(ServerCredentials(
      Files("future", authority_, ControllerOnLoopback(), absl::Now() + absl::Hours(24)),
      /*require_client_certificate=*/false));
  EXPECT_FALSE(Connects(server.address(), ChannelCredentials(admin_)));
  EXPECT_THAT(ExplainConnection(server.address(), admin_, absl::Now()),
              HasSubstr("is the clock right?"));
}

TEST_F(CredentialsTest, ClientsThatDoNotHoldAreRefusedAndTold) {
  const Serving server(ServerCredentials(controller_, /*require_client_certificate=*/false));
  const CertificateAuthority::Grant viewer = {{Role::kViewer, "bob"}, {}, absl::Hours(1)};
  const TlsFiles expired = Files("expired", authority_, viewer, absl::Now() - absl::Hours(48));
  EXPECT_THAT(ExplainConnection(server.address(), expired, absl::Now()), HasSubstr("has expired"));
  const TlsFiles early = Files("early", authority_, viewer, absl::Now() + absl::Hours(24));
  EXPECT_THAT(ExplainConnection(server.address(), early, absl::Now()),
              HasSubstr("is not valid before"));
  // By its own wrong clock, all is well.
  EXPECT_THAT(ExplainConnection(server.address(), early, absl::Now() + absl::Hours(24)),
              HasSubstr("does not accept the certificate of paceline://viewer/bob"));
  // Signed by another authority, though the client trusts the right one.
  const TlsFiles foreign = Files("foreign", TestAuthority(), viewer);
  ASSERT_TRUE(WritePublic(foreign.ca, authority_.certificate_pem()).ok());
  EXPECT_THAT(ExplainConnection(server.address(), foreign, absl::Now()),
              HasSubstr("not signed by the authority"));
}

TEST_F(CredentialsTest, ClientNeedsNoCertificateWhereNoneIsRequired) {
  const TlsFiles nobody = {admin_.ca, "", ""};
  const Serving server(ServerCredentials(controller_, /*require_client_certificate=*/false));
  EXPECT_TRUE(Connects(server.address(), ChannelCredentials(nobody)));
  EXPECT_EQ(ExplainConnection(server.address(), nobody, absl::Now()), "");
  // The server's certificate is checked anyway.
  const TlsFiles other = {Files("other", TestAuthority(), ControllerOnLoopback()).ca, "", ""};
  EXPECT_FALSE(Connects(server.address(), ChannelCredentials(other)));
  EXPECT_THAT(ExplainConnection(server.address(), other, absl::Now()),
              HasSubstr("signed by another authority"));
  // Without a certificate, nothing is said about one.
  const Serving strict(ServerCredentials(controller_, /*require_client_certificate=*/true));
  EXPECT_EQ(ExplainConnection(strict.address(), nobody, absl::Now()), "");
}

TEST_F(CredentialsTest, PlainTextAndTlsDoNotMix) {
  const Serving tls(ServerCredentials(controller_, /*require_client_certificate=*/false));
  EXPECT_THAT(ExplainConnection(tls.address(), std::nullopt, absl::Now()),
              HasSubstr("speaks TLS, and was asked for plain text"));
  const Serving plain(grpc::InsecureServerCredentials());
  EXPECT_FALSE(Connects(plain.address(), ChannelCredentials(admin_)));
  EXPECT_THAT(ExplainConnection(plain.address(), admin_, absl::Now()),
              HasSubstr("does not speak TLS"));
  EXPECT_EQ(ExplainConnection(plain.address(), std::nullopt, absl::Now()), "");
}

// common/http_tls_test.cc tests what a server gets from such a client.
TEST_F(CredentialsTest, NewestVersionIsTakenAndOldOnesAreRefused) {
  const Serving server(ServerCredentials(controller_, /*require_client_certificate=*/false));
  EXPECT_EQ(NegotiatedVersion(server.address(), TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(NegotiatedVersion(server.address(), TLS1_2_VERSION), "TLSv1.2");
  for (const int old : {TLS1_1_VERSION, TLS1_VERSION}) {
    EXPECT_THAT(NegotiatedVersion(server.address(), old), Not(StartsWith("TLSv"))) << old;
  }
}

TEST_F(CredentialsTest, NobodyThereIsNotExplained) {
  EXPECT_EQ(ExplainConnection("127.0.0.1:1", admin_, absl::Now()), "");
}

TEST_F(CredentialsTest, EndedAndResetConnectionsAreNotExplained) {
  for (const bool reset : {false, true}) {
    const RudeServer silent("", reset);
    EXPECT_EQ(ExplainConnection(silent.address(), admin_, absl::Now()), "") << reset;
    EXPECT_EQ(ExplainConnection(silent.address(), std::nullopt, absl::Now()), "") << reset;
    // The beginning of a handshake record.
    const RudeServer dying(std::string("\x16\x03\x03\x00\x7a\x02", 6), reset);
    EXPECT_EQ(ExplainConnection(dying.address(), admin_, absl::Now()), "") << reset;
  }
}

TEST_F(CredentialsTest, SilentServersAreNotExplained) {
  // Connections succeed, but nobody accepts them.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(listen(fd, 8), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  EXPECT_EQ(ExplainConnection("127.0.0.1:" + std::to_string(ntohs(at.sin_port)), admin_,
                              absl::Now(), absl::Milliseconds(50)),
            "");
  close(fd);
}

TEST_F(CredentialsTest, WhatAServerSaysIsTold) {
  const RudeServer web("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_THAT(ExplainConnection(web.address(), admin_, absl::Now()),
              HasSubstr("does not speak TLS"));
  // A fatal alert: internal error.
  const RudeServer alert(std::string("\x15\x03\x03\x00\x02\x02\x50", 7));
  EXPECT_THAT(ExplainConnection(alert.address(), admin_, absl::Now()),
              HasSubstr("refuses the TLS connection: internal error"));
}

TEST_F(CredentialsTest, NewFilesAreUsedWithoutARestart) {
  const Serving server(ServerCredentials(controller_, /*require_client_certificate=*/false));
  const CertificateAuthority second = TestAuthority();
  const TlsFiles newcomer = Files("newcomer", second, {{Role::kAdmin, "ann"}, {}, absl::Hours(1)});
  EXPECT_FALSE(Connects(server.address(), ChannelCredentials(newcomer)));
  // The controller changes to another authority in place.
  const TlsFiles made = Files("made", second, ControllerOnLoopback());
  std::filesystem::rename(made.key, controller_.key);
  std::filesystem::rename(made.certificate, controller_.certificate);
  std::filesystem::rename(made.ca, controller_.ca);
  bool connected = false;
  for (int i = 0; i < 100 && !connected; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    connected = Connects(server.address(), ChannelCredentials(newcomer));
  }
  EXPECT_TRUE(connected);
}

}  // namespace
}  // namespace paceline
