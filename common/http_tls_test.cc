// HTTP over TLS: who may read, and what other clients get.
#include <gmock/gmock.h>
#include <httplib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/http_server.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/testing/tls_get.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Answers the same on each path.
HttpServer::Routes Paths() {
  HttpServer::Routes routes;
  for (const char* path : {"/metrics", "/healthz", "/readyz"}) {
    routes[path] = [](const HttpServer::Query&) {
      return HttpResponse{200, "text/plain", std::string(100'000, 'x') + "."};
    };
  }
  return routes;
}

class HttpTlsTest : public ::testing::Test {
 protected:
  TlsFiles Files(const std::string& name, const CertificateAuthority& authority,
                 const CertificateAuthority::Grant& grant, absl::Time now = absl::Now()) {
    return WriteIdentity(root_ + "/" + name, authority, grant, now);
  }
  void Start(HttpTls tls, const HttpLimits& limits = {}) {
    auto server = HttpServer::Start("127.0.0.1:0", Paths(), {}, limits, std::move(tls));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Get(const std::string& path, const TlsFiles& files) const {
    return TlsGet(server_->address(), path, files);
  }

  const std::string root_ = ::testing::TempDir() + "/http_tls";
  const CertificateAuthority authority_ = TestAuthority(absl::Now() - absl::Hours(100));
  const TlsFiles controller_ = Files("controller", authority_, ControllerOnLoopback());
  const CertificateAuthority::Grant viewer_ = {{Role::kViewer, "bob"}, {}, absl::Hours(1)};
  const TlsFiles bob_ = Files("bob", authority_, viewer_);
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, CertificateOfTheClusterReads) {
  Start({controller_});
  const std::string answer = Get("/metrics", bob_);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(answer.back(), '.') << "all of it";
}

TEST_F(HttpTlsTest, WithoutACertificateOnlyProbesAreAnswered) {
  Start({controller_});
  const TlsFiles nobody = {controller_.ca, "", ""};
  EXPECT_THAT(Get("/healthz", nobody), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/readyz", nobody), StartsWith("HTTP/1.1 200"));
  const std::string refused = Get("/metrics", nobody);
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(refused, HasSubstr("paceline pki issue viewer"));
  EXPECT_THAT(refused, Not(HasSubstr("xxx")));
}

TEST_F(HttpTlsTest, CertificatesThatDoNotHoldEndTheConnection) {
  Start({controller_});
  EXPECT_THAT(Get("/healthz", Files("old", authority_, viewer_, absl::Now() - absl::Hours(48))),
              IsEmpty());
  EXPECT_THAT(Get("/healthz", Files("early", authority_, viewer_, absl::Now() + absl::Hours(24))),
              IsEmpty());
  const TlsFiles foreign = Files("foreign", TestAuthority(), viewer_);
  ASSERT_TRUE(WritePublic(foreign.ca, authority_.certificate_pem()).ok());
  EXPECT_THAT(Get("/healthz", foreign), IsEmpty());
}

TEST_F(HttpTlsTest, WhoIsRevokedIsTold) {
  Start({controller_, [](const Principal& principal, absl::Time) {
           return principal.name == "bob" ? absl::UnauthenticatedError("bob has left")
                                          : absl::OkStatus();
         }});
  EXPECT_THAT(Get("/metrics", bob_), HasSubstr("bob has left"));
  EXPECT_THAT(
      Get("/metrics", Files("eve", authority_, {{Role::kViewer, "eve"}, {}, absl::Hours(1)})),
      StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpTlsTest, WhoIsRevokedMeanwhileIsRefusedOnAConnectionThatIsOpen) {
  std::atomic<int> asked{0};
  Start({controller_, [&asked](const Principal&, absl::Time) {
           return ++asked > 1 ? absl::UnauthenticatedError("bob has left") : absl::OkStatus();
         }});
  const std::string answers = TlsGet(server_->address(), "/metrics", bob_, /*first=*/"/metrics");
  EXPECT_THAT(answers, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 403"));
  EXPECT_THAT(answers, HasSubstr("bob has left"));
}

TEST_F(HttpTlsTest, ACertificateThatEndsMeanwhileIsRefusedOnAConnectionThatIsOpen) {
  constexpr absl::Duration kLeft = absl::Seconds(5);
  Start({controller_}, {absl::Hours(1), absl::Hours(1), absl::Hours(1)});
  const absl::Time issued = absl::Now() + kLeft - viewer_.life;
  TlsConnection connection(server_->address(), Files("brief", authority_, viewer_, issued));
  ASSERT_TRUE(connection.Say("GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n"));
  EXPECT_THAT(connection.Hear(), StartsWith("HTTP/1.1 200"));
  absl::SleepFor(issued + viewer_.life + absl::Seconds(1) - absl::Now());
  ASSERT_TRUE(connection.Say("GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
  const std::string rest = connection.HearAll();
  EXPECT_THAT(rest, HasSubstr("HTTP/1.1 403"));
  EXPECT_THAT(rest, HasSubstr("has expired on"));
}

TEST_F(HttpTlsTest, PlainTextIsToldToSpeakTls) {
  Start({controller_});
  httplib::Client client("http://" + server_->address());
  const auto answer = client.Get("/metrics");
  ASSERT_TRUE(answer) << httplib::to_string(answer.error());
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->body, HasSubstr("https://"));
}

TEST_F(HttpTlsTest, NewestVersionIsTakenAndOldOnesAreRefused) {
  Start({controller_});
  EXPECT_EQ(NegotiatedVersion(server_->address(), TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(NegotiatedVersion(server_->address(), TLS1_2_VERSION), "TLSv1.2");
  for (const int old : {TLS1_1_VERSION, TLS1_VERSION}) {
    EXPECT_EQ(NegotiatedVersion(server_->address(), old), "tlsv1 alert protocol version");
  }
}

TEST_F(HttpTlsTest, HandshakeThatDoesNotGoOnIsCutOff) {
  // No other limit ends the wait.
  const HttpLimits limits = {absl::Hours(1), absl::Milliseconds(200), absl::Hours(1)};
  Start({controller_}, limits);
  // Either nothing, or the first bytes of a 512-byte record.
  for (const std::string& said : {std::string(), std::string("\x16\x03\x01\x02\x00\x01", 6)}) {
    EXPECT_EQ(AnswerToBytes(server_->address(), said), "");
  }
}

TEST_F(HttpTlsTest, NewFilesAreUsedWithoutARestart) {
  Start({controller_});
  const CertificateAuthority second = TestAuthority();
  const TlsFiles newcomer = Files("newcomer", second, viewer_);
  EXPECT_THAT(Get("/healthz", newcomer), IsEmpty());
  const TlsFiles made = Files("made", second, ControllerOnLoopback());
  std::filesystem::rename(made.key, controller_.key);
  std::filesystem::rename(made.certificate, controller_.certificate);
  std::filesystem::rename(made.ca, controller_.ca);
  std::string answer;
  for (int i = 0; i < 200 && answer.empty(); ++i) {
    absl::SleepFor(absl::Milliseconds(50));
    answer = Get("/healthz", newcomer);
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpTlsTest, NetworkNeedsTls) {
  const auto open = HttpServer::Start("0.0.0.0:0", Paths());
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(open.status().message()), HasSubstr("over TLS alone"));
  EXPECT_TRUE(HttpServer::Start("0.0.0.0:0", Paths(), {}, {}, HttpTls{controller_}).ok());
}

TEST_F(HttpTlsTest, FilesThatCannotBeUsedAreTold) {
  const auto none =
      HttpServer::Start("127.0.0.1:0", Paths(), {}, {}, HttpTls{FilesIn(root_ + "/nothing")});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr(root_ + "/nothing/cert.pem"));
}

}  // namespace
}  // namespace paceline
