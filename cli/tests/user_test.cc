// The user that changes are attributed to: sent with each call for the controller's audit record,
// and in requests that have an owner.
#include <stdlib.h>

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/fake_controller.h"
#include "common/tls/credentials.h"
#include "common/tls/private_file.h"
#include "common/tls/testing/rude_server.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/tls_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kToken(32, 't');

std::string NewFolder() {
  std::string pattern = ::testing::TempDir() + "/userXXXXXX";
  return mkdtemp(pattern.data());
}

class UserTest : public CommandTest {
 protected:
  UserTest() {
    v1::Checkpoint checkpoint;
    checkpoint.set_job_id("job-0123456789ab");
    checkpoint.set_job_name("small");
    checkpoint.set_step(60);
    controller_.SetCheckpoints({checkpoint});
    v1::JobAdvice advice;
    advice.add_decisions()->set_id(3);
    controller_.SetAdvice(std::move(advice));
  }

  // User sent with a change that has no owner.
  std::optional<std::string> SentByDelete() {
    const Ran ran = Paceline({"checkpoint", "delete", "small/60"});
    EXPECT_EQ(ran.exit, kCliOk) << ran.err;
    return controller_.last_user();
  }
};

TEST_F(UserTest, IsSentWithChangesThatHaveNoOwner) {
  environment_["USER"] = "ann";
  EXPECT_EQ(SentByDelete(), "ann");
  const std::string file = ::testing::TempDir() + "/user.yaml";
  std::ofstream(file) << "name: small\nmodel: resnet18\ndata: {train: t}\nsteps: 100\n"
                         "optimizer: {kind: sgd, learning_rate: 0.1}\n";
  environment_["USER"] = "bob";
  const Ran ran = Paceline({"submit", file, "--parsable"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(controller_.last_user(), "bob");
}

TEST_F(UserTest, TheOwnerThatIsSaidIsSent) {
  environment_["USER"] = "ann";
  EXPECT_EQ(Paceline({"job", "apply", "small", "3", "--owner", "bob"}).exit, kCliOk);
  EXPECT_EQ(controller_.last_user(), "bob");
  EXPECT_EQ(Paceline({"job", "apply", "small", "3"}).exit, kCliOk);
  EXPECT_EQ(controller_.last_user(), "ann");
}

TEST_F(UserTest, NothingIsSentOfAUserWithoutAName) {
  EXPECT_EQ(SentByDelete(), std::nullopt);
  environment_["LOGNAME"] = "ann";
  EXPECT_EQ(SentByDelete(), "ann");
}

TEST_F(UserTest, IsTheSystemsNameOfTheAccountWhereTheEnvironmentHasNone) {
  account_ = "root";
  EXPECT_EQ(SentByDelete(), "root");
  Ran ran = Paceline({"job", "apply", "small", "3"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(controller_.applied().at(0).by(), "root");
  environment_["LOGNAME"] = "ann";
  EXPECT_EQ(SentByDelete(), "ann");
}

TEST_F(UserTest, WhatIsNotPrintableAsciiIsEncoded) {
  environment_["USER"] = "J\xc3\xbcrgen 100%\n";
  EXPECT_EQ(SentByDelete(), "J%C3%BCrgen%20100%25%0A");
  environment_["USER"] = std::string(20000, 'x');
  EXPECT_EQ(SentByDelete(), std::string(256, 'x'));
}

// A controller with TLS, and the certificate of operator ann, with $USER set to root.
class CertifiedUserTest : public UserTest {
 protected:
  CertifiedUserTest() {
    v1::JobAdvice advice;
    advice.add_decisions()->set_id(3);
    secure_.SetAdvice(std::move(advice));
    WriteIdentity(directory_ + "/ann", authority_, {{Role::kOperator, "ann"}, {}, kUserLife});
    environment_["USER"] = "root";
    environment_["PACELINE_TLS_DIR"] = directory_ + "/ann";
    environment_.erase("PACELINE_PLAINTEXT");
  }

  const std::string directory_ = NewFolder();
  const CertificateAuthority authority_ = TestAuthority();
  FakeController secure_{0, ServerCredentials(WriteIdentity(directory_ + "/controller", authority_,
                                                            ControllerOnLoopback()),
                                              /*require_client_certificate=*/true)};
};

TEST_F(CertifiedUserTest, IsTheOneThatTheCertificateNames) {
  environment_["PACELINE_SERVER"] = secure_.address();
  const Ran ran = Paceline({"job", "apply", "small", "3"});
  ASSERT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(secure_.last_user(), "ann");
  EXPECT_EQ(secure_.applied().at(0).by(), "ann");
  EXPECT_EQ(Paceline({"job", "apply", "small", "3", "--owner", "bob"}).exit, kCliOk);
  EXPECT_EQ(secure_.applied().at(1).by(), "bob");
}

TEST_F(CertifiedUserTest, AControllerThatEndsTheHandshakeIsLeftForTheNext) {
  const RudeServer dying("");
  environment_["PACELINE_SERVER"] = absl::StrCat(dying.address(), ",", secure_.address());
  const Ran ran = Paceline({"job", "apply", "small", "3"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(secure_.applied().at(0).by(), "ann");
}

TEST_F(CertifiedUserTest, AControllerThatOnlyEndsConnectionsIsAwayAndBlamesNobody) {
  const RudeServer dying("");
  const Ran ran = Paceline({"--server", dying.address(), "--timeout", "0.5", "job", "list"});
  EXPECT_EQ(ran.exit, kCliUnavailable);
  EXPECT_THAT(ran.err, HasSubstr("does not answer"));
}

TEST_F(CertifiedUserTest, IsThatOfTheMachineInPlainText) {
  const Ran ran = Paceline({"--plaintext", "job", "apply", "small", "3"});
  ASSERT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(controller_.applied().at(0).by(), "root");
}

TEST_F(CertifiedUserTest, AuthorityIsMadeForThePersonAtTheMachine) {
  const std::string made = directory_ + "/made";
  const Ran ran = Paceline({"pki", "init", made, "--host", "head"});
  ASSERT_EQ(ran.exit, kCliOk) << ran.err;
  const absl::StatusOr<Certificate> admin = CheckTlsFiles(FilesIn(made + "/admin"), absl::Now());
  ASSERT_TRUE(admin.ok()) << admin.status();
  EXPECT_EQ(admin->principal.name, "root");
}

// A controller with TLS that knows a token of tom's; $USER is not set.
class TokenUserTest : public UserTest {
 protected:
  TokenUserTest() {
    for (const char* name : {"a", "b"}) {
      v1::Node node;
      node.set_name(name);
      nodes_.push_back(node);
    }
    secure_.nodes().SetNodes(nodes_);
    controller_.nodes().SetNodes(nodes_);
    secure_.identity().SetPrincipal(kToken, "paceline://operator/tom");
    EXPECT_TRUE(WritePublic(FilesIn(directory_).ca, authority_.certificate_pem()).ok());
    WriteToken(kToken);
    environment_["PACELINE_SERVER"] = secure_.address();
    environment_["PACELINE_TLS_DIR"] = directory_;
    environment_["PACELINE_TOKEN_FILE"] = token_file_;
    environment_.erase("PACELINE_PLAINTEXT");
  }

  void WriteToken(const std::string& token) const {
    ASSERT_TRUE(WritePrivate(token_file_, token + "\n").ok());
  }
  Ran Cordon() { return Paceline({"node", "cordon", "a", "b", "--reason", "x"}); }

  const std::string directory_ = NewFolder();
  const std::string token_file_ = directory_ + "/token";
  const CertificateAuthority authority_ = TestAuthority();
  std::vector<v1::Node> nodes_;
  FakeController secure_{0, ServerCredentials(WriteIdentity(directory_ + "/controller", authority_,
                                                            ControllerOnLoopback()),
                                              /*require_client_certificate=*/false)};
};

TEST_F(TokenUserTest, IsTheOneThatTheControllerTakesTheTokenForAndAskedOnce) {
  const Ran ran = Cordon();
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(secure_.nodes().requests(), SizeIs(2));
  EXPECT_THAT(secure_.nodes().requests(), Each(HasSubstr("owner: \"tom\"")));
  EXPECT_EQ(secure_.identity().asked(), 1);
}

TEST_F(TokenUserTest, GoesBeforeTheSystemsNameOfTheAccount) {
  account_ = "root";
  EXPECT_EQ(Cordon().exit, kCliOk);
  EXPECT_THAT(secure_.nodes().requests(), Each(HasSubstr("owner: \"tom\"")));
  WriteToken(std::string(32, 'u'));
  EXPECT_EQ(Paceline({"node", "cordon", "a", "--reason", "x"}).exit, kCliPermission);
}

TEST_F(TokenUserTest, WhoSaysANameIsNotAskedFor) {
  environment_["USER"] = "ann";
  EXPECT_EQ(Cordon().exit, kCliOk);
  EXPECT_THAT(secure_.nodes().requests(), Each(HasSubstr("owner: \"ann\"")));
  environment_.erase("USER");
  EXPECT_EQ(Paceline({"node", "uncordon", "a", "--owner", "bob"}).exit, kCliOk);
  ASSERT_THAT(secure_.nodes().requests(), SizeIs(3));
  EXPECT_THAT(secure_.nodes().requests()[2], HasSubstr("owner: \"bob\""));
  EXPECT_EQ(secure_.identity().asked(), 0);
}

TEST_F(TokenUserTest, ATokenThatTheControllerDoesNotKnowIsTold) {
  WriteToken(std::string(32, 'u'));
  const Ran ran = Cordon();
  EXPECT_EQ(ran.exit, kCliPermission);
  EXPECT_THAT(ran.err, HasSubstr("does not know the token of " + token_file_));
  EXPECT_THAT(secure_.nodes().requests(), IsEmpty());
}

TEST_F(TokenUserTest, WhyTheControllerCannotBeAskedIsTold) {
  environment_["PACELINE_SERVER"] = controller_.address();
  environment_.erase("PACELINE_TLS_DIR");
  environment_["PACELINE_PLAINTEXT"] = "1";
  const Ran ran = Cordon();
  EXPECT_EQ(ran.exit, kCliPermission);
  EXPECT_THAT(ran.err, HasSubstr("is not sent in plain text"));
  EXPECT_THAT(controller_.nodes().requests(), IsEmpty());
}

}  // namespace
}  // namespace paceline
