// Who gets certificates and tokens over a real connection, and what a revocation ends.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"
#include "common/tls/key_and_request.h"
#include "common/tls/testing/tls_get.h"
#include "common/tls/tls_files.h"
#include "controller/core/identity/identities.h"
#include "controller/testing/server_fixture.h"
#include "controller/testing/tls_fixture.h"
#include "proto/identity.grpc.pb.h"
#include "proto/job.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr grpc::StatusCode kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
constexpr grpc::StatusCode kUnknown = grpc::StatusCode::UNAUTHENTICATED;
// Longer than a certificate request may be.
constexpr size_t kTooLong = 17 << 10;

class IdentityServiceTest : public TlsServerTest {
 protected:
  IdentityServiceTest() {
    EXPECT_TRUE(authority_.Save(directory_ + "/ca").ok());
    ServerOptions options = Options();
    options.http = "0.0.0.0:0";  // HTTP is only in plain text on loopback.
    options.ca_dir = directory_ + "/ca";
    Start(options);
    ann_ = v1::IdentityService::NewStub(ChannelOf({Role::kAdmin, "ann"}));
  }

  grpc::Status CreateToken(double ttl_s, v1::CreateJoinTokenResponse* response) {
    grpc::ClientContext context;
    Prepare(context);
    v1::CreateJoinTokenRequest request;
    request.set_request_id(absl::StrCat("token-", ++requests_));
    request.set_node("w0");
    request.set_ttl_s(ttl_s);
    request.set_owner("ann");
    return ann_->CreateJoinToken(&context, request, response);
  }
  grpc::Status Join(const std::string& token, const std::string& csr_pem) {
    grpc::ClientContext context;
    Prepare(context);
    v1::JoinRequest request;
    request.set_node("w0");
    request.set_token(token);
    request.set_csr_pem(csr_pem);
    v1::JoinResponse response;
    return v1::IdentityService::NewStub(ChannelOfNobody())->Join(&context, request, &response);
  }
  static grpc::Status Renew(v1::IdentityService::Stub& identity, const std::string& csr_pem) {
    grpc::ClientContext context;
    Prepare(context);
    v1::RenewRequest request;
    request.set_csr_pem(csr_pem);
    v1::RenewResponse response;
    return identity.Renew(&context, request, &response);
  }
  void Revoke(const Principal& principal) {
    const grpc::Status status = TryRevoke(principal);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  grpc::Status TryRevoke(const Principal& principal) {
    grpc::ClientContext context;
    Prepare(context);
    v1::RevokeRequest request;
    request.set_request_id(absl::StrCat("revoke-", ++requests_));
    request.set_principal(PrincipalUri(principal));
    request.set_reason("stolen disk");
    request.set_owner("ann");
    v1::Revocation revocation;
    return ann_->Revoke(&context, request, &revocation);
  }
  static std::string Request() { return *MakeRequest(*NewKey(), "whatever"); }

  int requests_ = 0;
  std::unique_ptr<v1::IdentityService::Stub> ann_;
};

TEST_F(IdentityServiceTest, ATokenLivesForAWeekAtMost) {
  const double longest = absl::ToDoubleSeconds(kLongestTokenLife);
  v1::CreateJoinTokenResponse response;
  for (const double ttl_s : {-1.0, longest + 1, double{NAN}, double{INFINITY}}) {
    const grpc::Status refused = CreateToken(ttl_s, &response);
    EXPECT_EQ(refused.error_code(), kInvalid) << ttl_s;
    EXPECT_THAT(refused.error_message(), HasSubstr("ttl_s")) << ttl_s;
  }
  EXPECT_TRUE(CreateToken(longest, &response).ok());
  const absl::Time begin = absl::Now();
  ASSERT_TRUE(CreateToken(0, &response).ok());
  const absl::Time end = absl::FromUnixSeconds(response.expire_time().seconds());
  EXPECT_GE(end, begin + kUsualTokenLife - absl::Seconds(1));
  EXPECT_LE(end, absl::Now() + kUsualTokenLife);
}

TEST_F(IdentityServiceTest, WhatIsTooLongIsNotLookedAt) {
  v1::CreateJoinTokenResponse made;
  ASSERT_TRUE(CreateToken(0, &made).ok());
  const std::string request = Request();
  const std::string long_request = request + std::string(kTooLong - request.size(), '\n');
  ASSERT_TRUE(KeyDigest(long_request).ok()) << "it is its length alone";
  EXPECT_EQ(Join(made.token(), long_request).error_code(), kInvalid);
  EXPECT_THAT(Join(std::string(257, 't'), request).error_message(),
              HasSubstr("token: is too long"));
  EXPECT_TRUE(Join(made.token(), request).ok()) << "the token was not used up";
  const auto worker = v1::IdentityService::NewStub(ChannelOf({Role::kWorker, "w0"}));
  EXPECT_EQ(Renew(*worker, long_request).error_code(), kInvalid);
  EXPECT_TRUE(Renew(*worker, request).ok());
}

TEST_F(IdentityServiceTest, WhoIsRevokedGetsNoNewCertificateOverAnOpenConnection) {
  const auto worker = v1::IdentityService::NewStub(ChannelOf({Role::kWorker, "w0"}));
  ASSERT_TRUE(Renew(*worker, Request()).ok());
  Revoke({Role::kWorker, "w0"});
  const grpc::Status refused = Renew(*worker, Request());
  EXPECT_EQ(refused.error_code(), kUnknown);
  EXPECT_THAT(refused.error_message(), HasSubstr("stolen disk"));
  const auto other = v1::IdentityService::NewStub(ChannelOf({Role::kWorker, "w1"}));
  EXPECT_TRUE(Renew(*other, Request()).ok());
}

// It would have no effect: workers and users trust whatever has a certificate.
TEST_F(IdentityServiceTest, AControllerIsNotRevoked) {
  const grpc::Status refused = TryRevoke({Role::kController, "c2"});
  EXPECT_EQ(refused.error_code(), kInvalid);
  EXPECT_THAT(refused.error_message(), HasSubstr("know no revocations"));
}

// The page and the metrics are for callers who may see everything.
TEST_F(IdentityServiceTest, PagesAreNotForWorkersAndSubmitters) {
  const std::string http = server_->Address("http");
  const std::string address = "127.0.0.1" + http.substr(http.rfind(':'));
  for (const char* path : {"/", "/events", "/metrics"}) {
    for (const Role role : {Role::kWorker, Role::kSubmitter}) {
      EXPECT_THAT(TlsGet(address, path, FilesIn(Issue({role, "w0"}))), HasSubstr(" 403 "))
          << path << " " << RoleName(role);
    }
  }
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin}) {
    EXPECT_THAT(TlsGet(address, "/metrics", FilesIn(Issue({role, "ann"}))), HasSubstr(" 200 "))
        << RoleName(role);
  }
}

TEST_F(IdentityServiceTest, ARevocationEndsWatchesThatAreOpen) {
  const auto jobs = v1::JobService::NewStub(ChannelOf({Role::kViewer, "vic"}));
  grpc::ClientContext context;
  Prepare(context);
  const auto watch = jobs->Watch(&context, {});
  v1::JobEvent event;
  ASSERT_TRUE(watch->Read(&event)) << "it is open";
  const TlsFiles files = FilesIn(Issue({Role::kViewer, "vic"}));
  const std::string http = server_->Address("http");
  const std::string address = "127.0.0.1" + http.substr(http.rfind(':'));
  TlsConnection page(address, files);
  ASSERT_TRUE(page.Say("GET /events HTTP/1.1\r\nHost: test\r\n\r\n"));
  ASSERT_THAT(page.Hear(), HasSubstr("200 OK"));

  Revoke({Role::kViewer, "vic"});
  while (watch->Read(&event)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  page.HearAll();  // The stream does end.
  grpc::ClientContext again;
  Prepare(again);
  const auto refused = jobs->Watch(&again, {});
  EXPECT_FALSE(refused->Read(&event));
  EXPECT_EQ(refused->Finish().error_code(), kUnknown);
  EXPECT_THAT(TlsGet(address, "/metrics", files), HasSubstr("403"));
}

}  // namespace
}  // namespace paceline
