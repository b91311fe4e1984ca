// Whom changes come from, as the controller is told with each call, for its audit record, and in
// the requests that have an owner.
#include <stdlib.h>

#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/fake_controller.h"
#include "common/tls/credentials.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/tls_files.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

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

  // What was sent with a change that has no owner.
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

TEST_F(UserTest, WhatIsNotPrintableAsciiIsEncoded) {
  environment_["USER"] = "J\xc3\xbcrgen 100%\n";
  EXPECT_EQ(SentByDelete(), "J%C3%BCrgen%20100%25%0A");
  environment_["USER"] = std::string(20000, 'x');
  EXPECT_EQ(SentByDelete(), std::string(256, 'x'));
}

// A controller that speaks TLS, and the certificate of an operator, ann, where $USER is root.
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

  static std::string NewFolder() {
    std::string pattern = ::testing::TempDir() + "/certifiedXXXXXX";
    return mkdtemp(pattern.data());
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

}  // namespace
}  // namespace paceline
