#include "controller/api/admission/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/tls/key_and_request.h"
#include "controller/metrics/metric_families.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Role kRoles[] = {Role::kNone,  Role::kViewer, Role::kSubmitter, Role::kOperator,
                           Role::kAdmin, Role::kWorker, Role::kController};

// Roles that may call the method, in the order of kRoles.
std::vector<Role> MayCallIt(const std::string& method) {
  const MethodRule* rule = FindRule(method);
  if (rule == nullptr) return {};
  std::vector<Role> may;
  for (const Role role : kRoles) {
    if (MayCall(role, *rule)) may.push_back(role);
  }
  return may;
}

TEST(AccessTableTest, WhoMayWhat) {
  const std::vector<Role> everybody(std::begin(kRoles), std::end(kRoles));
  const std::vector<Role> somebody(std::begin(kRoles) + 1, std::end(kRoles));
  const std::vector<Role> readers = {Role::kViewer, Role::kSubmitter, Role::kOperator,
                                     Role::kAdmin};
  const std::vector<Role> submitters(readers.begin() + 1, readers.end());
  const std::vector<Role> operators(readers.begin() + 2, readers.end());
  const std::vector<Role> admins = {Role::kAdmin};
  const std::vector<Role> workers = {Role::kWorker};
  EXPECT_EQ(MayCallIt("/grpc.health.v1.Health/Check"), everybody);
  EXPECT_EQ(MayCallIt("/grpc.health.v1.Health/Watch"), readers);
  EXPECT_EQ(MayCallIt("/paceline.v1.IdentityService/Join"), everybody);
  EXPECT_EQ(MayCallIt("/paceline.v1.IdentityService/WhoAmI"), everybody);
  EXPECT_EQ(MayCallIt("/paceline.v1.IdentityService/Renew"), somebody);
  EXPECT_EQ(MayCallIt("/paceline.v1.JobService/Get"), readers);
  EXPECT_EQ(MayCallIt("/paceline.v1.JobService/StreamLogs"), readers);
  EXPECT_EQ(MayCallIt("/paceline.v1.NodeService/List"), readers);
  EXPECT_EQ(MayCallIt("/paceline.v1.JobService/Submit"), submitters);
  EXPECT_EQ(MayCallIt("/paceline.v1.JobService/Cancel"), submitters);
  EXPECT_EQ(MayCallIt("/paceline.v1.CheckpointService/Delete"), submitters);
  EXPECT_EQ(MayCallIt("/paceline.v1.NodeService/Drain"), operators);
  EXPECT_EQ(MayCallIt("/paceline.v1.AutomationService/Pause"), operators);
  EXPECT_EQ(MayCallIt("/paceline.v1.AdminService/SetLogLevel"), admins);
  EXPECT_EQ(MayCallIt("/paceline.v1.AdminService/Backup"), admins);
  EXPECT_EQ(MayCallIt("/paceline.v1.IdentityService/Revoke"), admins);
  EXPECT_EQ(MayCallIt("/paceline.v1.IdentityService/CreateJoinToken"), admins);
  EXPECT_EQ(MayCallIt("/paceline.v1.WorkerService/Session"), workers);
}

// Methods that show or change jobs must be limited to a submitter's own.
TEST(AccessTableTest, WhatIsAboutJobsIsOfScopeOwn) {
  for (const MethodRule& rule : MethodRules()) {
    bool about_jobs = false;
    for (const char* service :
         {"JobService/", "JobHistoryService/", "CheckpointService/", "TelemetryService/"}) {
      about_jobs =
          about_jobs || absl::StartsWith(rule.method, absl::StrCat("/paceline.v1.", service));
    }
    EXPECT_EQ(rule.scope == Scope::kOwn, about_jobs) << rule.method;
  }
}

class LinesOnly : public AuditLog {
 public:
  void Write(const std::string& line) override { lines.push_back(nlohmann::json::parse(line)); }
  std::vector<nlohmann::json> lines;
};

const std::string kBobsToken(40, 'b');

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() {
    std::string folder = ::testing::TempDir() + "/accessXXXXXX";
    const std::string path = std::string(mkdtemp(folder.data())) + "/tokens";
    std::ofstream(path) << Sha256Hex(kBobsToken) << " submitter bob\n";
    chmod(path.c_str(), 0600);
    auto tokens = UserTokens::Open(path);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    access_ = std::make_unique<Access>(
        *std::move(tokens),
        Revocations{[this](const std::string& pem) -> absl::StatusOr<CertificateTimes> {
                      if (pem != "pem") return absl::InvalidArgumentError("it is damaged");
                      return CertificateTimes{issued_, end_};
                    },
                    [this](const Principal& principal, absl::Time issued_at) {
                      return principal.name == revoked_ && issued_at < kRevocation
                                 ? absl::PermissionDeniedError("it was stolen")
                                 : absl::OkStatus();
                    }},
        [this](const Principal& caller) {
          admissions_.push_back(PrincipalText(caller));
          return admission_;
        },
        &metrics_, &audit_);
  }

  static CallFacts OfCertificate(const std::string& uri, const std::string& method) {
    return {absl::StrCat("/paceline.v1.", method), {uri}, "pem", {}};
  }
  static CallFacts OfToken(const std::string& token, const std::string& method) {
    return {absl::StrCat("/paceline.v1.", method), {}, "", {absl::StrCat("Bearer ", token)}};
  }
  AccessVerdict Judge(const CallFacts& facts) { return access_->Judge(facts, kNow); }
  // What the caller lacked; "": nothing.
  std::string Missing(const CallFacts& facts) {
    const AccessVerdict verdict = Judge(facts);
    EXPECT_EQ(verdict.refusal.has_value(), !verdict.status.ok());
    return verdict.refusal.has_value() ? AccessRefusalLabel(*verdict.refusal) : "";
  }

  static constexpr absl::Time kNow = absl::FromUnixSeconds(2000);
  static constexpr absl::Time kRevocation = absl::FromUnixSeconds(1000);
  absl::Time issued_ = absl::FromUnixSeconds(500);
  absl::Time end_ = absl::FromUnixSeconds(3000);
  std::string revoked_ = "eve";
  grpc::Status admission_;
  std::vector<std::string> admissions_;  // Callers that the admission was asked about.
  MetricRegistry registry_{ControllerFamilies()};
  AccessMetrics metrics_{registry_};
  LinesOnly audit_;
  std::unique_ptr<Access> access_;
};

TEST_F(AccessTest, ACertificateGivesThePrincipal) {
  const AccessVerdict verdict =
      Judge(OfCertificate("paceline://operator/ann", "NodeService/Drain"));
  EXPECT_EQ(Missing(OfCertificate("paceline://operator/ann", "NodeService/Drain")), "");
  EXPECT_EQ(verdict.caller, (Principal{Role::kOperator, "ann"}));
  EXPECT_EQ(Missing(OfCertificate("paceline://worker/w0", "WorkerService/Session")), "");
  EXPECT_EQ(Missing(OfCertificate("paceline://admin/ann", "WorkerService/Session")), "role");
  EXPECT_EQ(Missing(OfCertificate("paceline://worker/w0", "JobService/Get")), "role");
  EXPECT_EQ(Missing(OfCertificate("paceline://controller/c", "JobService/Get")), "role");
}

TEST_F(AccessTest, ARefusalSaysWhoNeedsWhat) {
  const grpc::Status status =
      Judge(OfCertificate("paceline://viewer/vic", "NodeService/Drain")).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("viewer vic may not call"));
  EXPECT_THAT(status.error_message(), HasSubstr("/paceline.v1.NodeService/Drain"));
  EXPECT_THAT(status.error_message(), HasSubstr("needs the role operator"));
}

TEST_F(AccessTest, ABadCertificateNamesNobody) {
  EXPECT_EQ(Missing(OfCertificate("https://example.org", "JobService/Get")), "bad_certificate");
  CallFacts facts = OfCertificate("paceline://admin/ann", "JobService/Get");
  facts.uris.push_back("paceline://viewer/ann");
  EXPECT_EQ(Missing(facts), "bad_certificate") << "two names";
  facts.uris.clear();
  EXPECT_EQ(Missing(facts), "bad_certificate") << "no name";
  EXPECT_EQ(Judge(facts).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  facts = OfCertificate("paceline://admin/ann", "JobService/Get");
  facts.certificate = "nonsense";
  EXPECT_EQ(Missing(facts), "bad_certificate");
}

TEST_F(AccessTest, ATokenGivesThePrincipal) {
  EXPECT_EQ(Missing(OfToken(kBobsToken, "JobService/Submit")), "");
  EXPECT_EQ(Judge(OfToken(kBobsToken, "JobService/Submit")).caller,
            (Principal{Role::kSubmitter, "bob"}));
  EXPECT_EQ(Missing(OfToken(kBobsToken, "NodeService/Drain")), "role");
  EXPECT_EQ(Missing(OfToken(std::string(40, 'x'), "JobService/Submit")), "unknown_token");
  EXPECT_EQ(Missing(OfToken("", "JobService/Submit")), "unknown_token");
  CallFacts facts = OfToken(kBobsToken, "JobService/Submit");
  facts.authorizations[0] = "bearer " + kBobsToken;
  EXPECT_EQ(Missing(facts), "");
  facts.authorizations[0] = kBobsToken;
  EXPECT_EQ(Missing(facts), "unknown_token");
  facts = OfToken(kBobsToken, "JobService/Submit");
  facts.authorizations.push_back(facts.authorizations[0]);
  EXPECT_EQ(Missing(facts), "unknown_token") << "two of them";
}

TEST_F(AccessTest, ACertificateGoesBeforeAToken) {
  CallFacts facts = OfToken(kBobsToken, "JobService/Submit");
  facts.certificate = "pem";
  facts.uris = {"paceline://viewer/vic"};
  EXPECT_EQ(Missing(facts), "role");
  EXPECT_EQ(Judge(facts).caller, (Principal{Role::kViewer, "vic"}));
  facts.uris = {"nonsense"};
  EXPECT_EQ(Missing(facts), "bad_certificate") << "the token does not help";
}

TEST_F(AccessTest, WithoutAnythingOnlyWhatNeedsNothingIsServed) {
  for (const char* method : {"/grpc.health.v1.Health/Check", "/paceline.v1.IdentityService/Join",
                             "/paceline.v1.IdentityService/WhoAmI"}) {
    EXPECT_EQ(Missing({method, {}, "", {}}), "") << method;
  }
  for (const char* method : {"/paceline.v1.JobService/List", "/paceline.v1.IdentityService/Renew",
                             "/paceline.v1.WorkerService/Session", "/grpc.health.v1.Health/Watch",
                             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(Missing({method, {}, "", {}}), "no_identity") << method;
    EXPECT_EQ(Judge({method, {}, "", {}}).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
}

TEST_F(AccessTest, WhatIsRevokedIsRefusedAndWhatWasIssuedLaterIsNot) {
  EXPECT_EQ(Missing(OfCertificate("paceline://admin/eve", "JobService/Get")), "revoked");
  EXPECT_THAT(Judge(OfCertificate("paceline://admin/eve", "JobService/Get")).status.error_message(),
              HasSubstr("it was stolen"));
  EXPECT_EQ(Missing(OfCertificate("paceline://admin/ann", "JobService/Get")), "");
  issued_ = kRevocation;
  EXPECT_EQ(Missing(OfCertificate("paceline://admin/eve", "JobService/Get")), "");
  EXPECT_EQ(Missing(OfToken(kBobsToken, "JobService/Get")), "");
  revoked_ = "bob";
  EXPECT_EQ(Missing(OfToken(kBobsToken, "JobService/Get")), "revoked") << "whenever it was made";
}

// A connection that was made in time stays open, and may ask for a renewal, for example.
TEST_F(AccessTest, ACertificateIsRefusedFromItsEndOn) {
  const CallFacts renew = OfCertificate("paceline://worker/w0", "IdentityService/Renew");
  end_ = kNow;
  EXPECT_EQ(Missing(renew), "");
  end_ = kNow - absl::Seconds(1);
  EXPECT_EQ(Missing(renew), "bad_certificate");
  EXPECT_EQ(Judge(renew).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Judge(renew).caller, Principal());
  EXPECT_THAT(Judge(renew).status.error_message(),
              HasSubstr("worker w0 has expired on 1970-01-01 00:33:19 UTC"));
}

TEST_F(AccessTest, UnknownMethodsAreServedToNobody) {
  for (const char* method : {"JobService/Destroy", "JobService/Get/", "jobservice/Get", ""}) {
    const CallFacts facts = OfCertificate("paceline://admin/ann", method);
    EXPECT_EQ(Missing(facts), "unknown_method") << method;
    EXPECT_EQ(Judge(facts).status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_EQ(Missing({"", {}, "", {}}), "unknown_method");
}

TEST_F(AccessTest, RefusalsAreCountedAndRecorded) {
  const auto drain = OfCertificate("paceline://viewer/vic", "NodeService/Drain");
  EXPECT_TRUE(access_->Check(OfCertificate("paceline://viewer/vic", "NodeService/Get"), kNow).ok());
  EXPECT_THAT(audit_.lines, IsEmpty());
  EXPECT_FALSE(access_->Check(drain, kNow).ok());
  ASSERT_EQ(audit_.lines.size(), 1);
  EXPECT_EQ(audit_.lines[0]["method"], "/paceline.v1.NodeService/Drain");
  EXPECT_EQ(audit_.lines[0]["user"], "vic");
  EXPECT_EQ(audit_.lines[0]["role"], "viewer");
  EXPECT_EQ(audit_.lines[0]["code"], "PERMISSION_DENIED");
  EXPECT_THAT(registry_.Text(), HasSubstr("paceline_access_refusals_total{reason=\"role\"} 1\n"));
  EXPECT_THAT(registry_.Text(),
              HasSubstr("paceline_access_refusals_total{reason=\"unknown_token\"} 0\n"));

  for (int i = 0; i < 100; ++i) access_->Check(drain, kNow);
  EXPECT_EQ(audit_.lines.size(), AuditBudget::kRefusalsPerSecond);
  EXPECT_THAT(registry_.Text(), HasSubstr("paceline_access_refusals_total{reason=\"role\"} 101\n"));
}

TEST_F(AccessTest, WhoAsksTooOftenIsRefusedAndRecorded) {
  const auto get = OfCertificate("paceline://viewer/vic", "JobService/Get");
  admission_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "try again in 1s");
  const grpc::Status refused = access_->Check(get, kNow);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(), "try again in 1s");
  ASSERT_EQ(audit_.lines.size(), 1);
  EXPECT_EQ(audit_.lines[0]["method"], "/paceline.v1.JobService/Get");
  EXPECT_EQ(audit_.lines[0]["user"], "vic");
  EXPECT_EQ(audit_.lines[0]["code"], "RESOURCE_EXHAUSTED");
  for (int i = 0; i < 100; ++i) access_->Check(get, kNow);
  EXPECT_EQ(audit_.lines.size(), AuditBudget::kRefusalsPerSecond);

  admission_ = grpc::Status::OK;
  EXPECT_TRUE(access_->Check(get, kNow).ok());
  EXPECT_EQ(audit_.lines.size(), AuditBudget::kRefusalsPerSecond);
}

TEST_F(AccessTest, CallsThatAreLetInCountForTheirCallers) {
  access_->Check(OfCertificate("paceline://viewer/vic", "JobService/List"), kNow);
  access_->Check(OfToken(kBobsToken, "JobService/Watch"), kNow);
  access_->Check(OfCertificate("paceline://worker/w0", "WorkerService/Session"), kNow);
  EXPECT_THAT(admissions_, ElementsAre("viewer vic", "submitter bob", "worker w0"));
  admissions_.clear();
  // Calls of nobody, and calls that were refused anyway.
  access_->Check({"/paceline.v1.IdentityService/WhoAmI", {}, "", {}}, kNow);
  access_->Check({"/paceline.v1.IdentityService/Join", {}, "", {}}, kNow);
  access_->Check(OfCertificate("paceline://viewer/vic", "NodeService/Drain"), kNow);
  access_->Check(OfCertificate("paceline://admin/eve", "JobService/Get"), kNow);
  EXPECT_THAT(admissions_, IsEmpty());
}

TEST_F(AccessTest, NoTokenIsWrittenAnywhere) {
  const std::string token(40, 's');
  access_->Check(OfToken(token, "JobService/Get"), kNow);
  ASSERT_EQ(audit_.lines.size(), 1);
  EXPECT_THAT(audit_.lines[0].dump(), Not(HasSubstr(token)));
  EXPECT_FALSE(audit_.lines[0].contains("user"));
}

}  // namespace
}  // namespace paceline
