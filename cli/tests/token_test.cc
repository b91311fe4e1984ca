// Users' tokens: where they come from, and to whom they are shown.
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/config/user_token.h"
#include "cli/exit_codes.h"
#include "cli/program.h"
#include "cli/rpc/client.h"
#include "cli/testing/command_test.h"
#include "cli/testing/fake_controller.h"
#include "common/tls/credentials.h"
#include "common/tls/private_file.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/tls_files.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kToken = "q3Zr+x0mH7/tB2cVw9kLpYs4nEjD6uGa";
const std::string kNewToken = "W1fTzQ8rNc5yKe7bLh2uXv0jSoA9iMdP";

v1::Checkpoint SomeCheckpoint() {
  v1::Checkpoint checkpoint;
  checkpoint.set_job_id("job-0123456789ab");
  checkpoint.set_job_name("small");
  checkpoint.set_step(60);
  return checkpoint;
}

// A controller with TLS, the folder "lab" with its authority's certificate only, and a token in a
// file.
class TokenTest : public CommandTest {
 protected:
  TokenTest() {
    controller_.SetCheckpoints({SomeCheckpoint()});
    secure_.SetCheckpoints({SomeCheckpoint()});
    EXPECT_TRUE(WritePublic(FilesIn(lab_).ca, authority_.certificate_pem()).ok());
    WriteToken(kToken);
    environment_["PACELINE_CONFIG"] = directory_ + "/config.yaml";
    environment_["PACELINE_SERVER"] = secure_.address();
    environment_.erase("PACELINE_PLAINTEXT");
  }

  static std::string NewFolder() {
    std::string pattern = ::testing::TempDir() + "/tokensXXXXXX";
    return mkdtemp(pattern.data());
  }

  void WriteToken(const std::string& token) const {
    ASSERT_TRUE(WritePrivate(token_file_, token + "\n").ok());
  }

  // Makes a change, with these flags before it; the token must not be in the output.
  Ran Delete(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"checkpoint", "delete", "small/60"});
    Ran ran = Paceline(flags);
    EXPECT_THAT(absl::StrCat(ran.out, ran.err), Not(HasSubstr(kToken)));
    return ran;
  }

  // Expects that nothing was sent to either controller, for this reason.
  void ExpectRefused(const Ran& ran, const std::string& why) const {
    EXPECT_EQ(ran.exit, kCliPermission) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(why));
    EXPECT_THAT(controller_.deletes(), IsEmpty());
    EXPECT_THAT(secure_.deletes(), IsEmpty());
  }

  static grpc::Status DeleteBy(Client& client) {
    v1::DeleteCheckpointRequest request;
    request.set_checkpoint("small/60");
    v1::Checkpoint checkpoint;
    return client.Call(methods::kCheckpointDelete, request, &checkpoint);
  }

  const std::string directory_ = NewFolder();
  const std::string lab_ = directory_ + "/lab";
  const std::string token_file_ = directory_ + "/token";
  const std::string shown_ = "Bearer " + kToken;
  const CertificateAuthority authority_ = TestAuthority();
  FakeController secure_{0, ServerCredentials(WriteIdentity(directory_ + "/controller", authority_,
                                                            ControllerOnLoopback()),
                                              /*require_client_certificate=*/false)};
};

TEST_F(TokenTest, OfTheFlagIsShown) {
  const Ran ran = Delete({"--tls-dir", lab_, "--token-file", token_file_});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(secure_.last_authorization(), shown_);
}

TEST_F(TokenTest, OfTheEnvironmentIsShown) {
  environment_["PACELINE_TLS_DIR"] = lab_;
  environment_["PACELINE_TOKEN_FILE"] = token_file_;
  const Ran ran = Delete();
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(secure_.last_authorization(), shown_);
}

TEST_F(TokenTest, OfTheContextIsShownToItsControllerAlone) {
  environment_.erase("PACELINE_SERVER");
  const Ran added = Paceline(
      {"context", "add", "lab", secure_.address(), "--tls-dir", lab_, "--token-file", token_file_});
  ASSERT_EQ(added.exit, kCliOk) << added.err;
  EXPECT_THAT(Paceline({"context", "show"}).out, HasSubstr("Token file: " + token_file_ + "\n"));
  const Ran ran = Delete();
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(secure_.last_authorization(), shown_);
  environment_["PACELINE_SERVER"] = controller_.address();
  environment_["PACELINE_PLAINTEXT"] = "1";
  EXPECT_EQ(Delete().exit, kCliOk);
  EXPECT_THAT(controller_.deletes(), SizeIs(1));
  EXPECT_EQ(controller_.last_authorization(), std::nullopt);
}

TEST_F(TokenTest, ContextNeedsTheAuthorityToo) {
  const Ran ran = Paceline({"context", "add", "lab", "h", "--token-file", token_file_});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("--tls-dir"));
  EXPECT_THAT(Paceline({"context", "list", "-o", "name"}).out, IsEmpty());
}

TEST_F(TokenTest, FlagsOfWhoSomebodyIsComeBeforeTheEnvironment) {
  environment_["PACELINE_TOKEN_FILE"] = token_file_;
  const std::string ann = directory_ + "/ann";
  WriteIdentity(ann, authority_, {{Role::kOperator, "ann"}, {}, kUserLife});
  const Ran certified = Delete({"--tls-dir", ann});
  EXPECT_EQ(certified.exit, kCliOk) << certified.err;
  EXPECT_EQ(secure_.last_authorization(), std::nullopt);
  environment_["PACELINE_SERVER"] = controller_.address();
  const Ran plain = Delete({"--plaintext"});
  EXPECT_EQ(plain.exit, kCliOk) << plain.err;
  EXPECT_THAT(controller_.deletes(), SizeIs(1));
  EXPECT_EQ(controller_.last_authorization(), std::nullopt);
}

TEST_F(TokenTest, IsNotSentInPlainText) {
  environment_["PACELINE_SERVER"] = controller_.address();
  environment_["PACELINE_PLAINTEXT"] = "1";
  ExpectRefused(Delete({"--token-file", token_file_}), "is not sent in plain text");
  environment_["PACELINE_TOKEN_FILE"] = token_file_;
  ExpectRefused(Delete(), "is not sent in plain text");
  EXPECT_EQ(Delete({"--plaintext", "--token-file", token_file_}).exit, kCliUsage);
  // Speaks TLS to a controller that does not.
  ExpectRefused(Delete({"--tls-dir", lab_, "--token-file", token_file_}), "does not speak TLS");
}

TEST_F(TokenTest, IsSentToNobodyWhoDoesNotProveToBeTheController) {
  const std::string other = directory_ + "/other";
  ExpectRefused(Delete({"--tls-dir", other, "--token-file", token_file_}),
                other + "/ca.pem is missing");
  ASSERT_TRUE(WritePublic(FilesIn(other).ca, TestAuthority().certificate_pem()).ok());
  ExpectRefused(Delete({"--tls-dir", other, "--token-file", token_file_}),
                "signed by another authority");
}

TEST_F(TokenTest, FileThatCannotBeUsedIsTold) {
  const std::vector<std::string> flags = {"--tls-dir", lab_, "--token-file", token_file_};
  ASSERT_EQ(chmod(token_file_.c_str(), 0640), 0);
  ExpectRefused(Delete(flags), "chmod 600 " + token_file_);
  WriteToken(kToken.substr(1));
  ExpectRefused(Delete(flags), token_file_ + " holds no token");
  ASSERT_TRUE(RemoveFile(token_file_).ok());
  ExpectRefused(Delete(flags), token_file_ + " is missing");
}

TEST_F(TokenTest, CommandsAboutCertificatesSayThatThereIsNone) {
  environment_["PACELINE_TLS_DIR"] = lab_;
  environment_["PACELINE_TOKEN_FILE"] = token_file_;
  const Ran shown = Paceline({"pki", "show"});
  EXPECT_EQ(shown.exit, kCliRefused);
  EXPECT_THAT(shown.err, HasSubstr("paceline whoami"));
  const Ran rotated = Paceline({"pki", "rotate"});
  EXPECT_EQ(rotated.exit, kCliUsage);
  EXPECT_THAT(rotated.err, HasSubstr("no certificate in use"));
}

TEST_F(TokenTest, IsReadAnewForEachCall) {
  std::ostringstream sink;
  Program program({sink, sink, false, 0, [](const char*) { return std::string(); }}, interrupt_);
  program.flags.server = secure_.address();
  program.flags.tls_dir = lab_;
  program.flags.token_file = token_file_;
  Client& client = program.client();
  EXPECT_TRUE(DeleteBy(client).ok());
  EXPECT_EQ(secure_.last_authorization(), shown_);
  WriteToken(kNewToken);
  EXPECT_TRUE(DeleteBy(client).ok());
  EXPECT_EQ(secure_.last_authorization(), "Bearer " + kNewToken);
  ASSERT_TRUE(RemoveFile(token_file_).ok());
  EXPECT_EQ(DeleteBy(client).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  v1::WatchJobsRequest watch;
  const grpc::Status watched =
      client.Stream(methods::kJobWatch, watch, [](const v1::JobEvent&) { return false; });
  EXPECT_EQ(watched.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(secure_.watches(), IsEmpty());
  EXPECT_THAT(secure_.deletes(), SizeIs(2));
}

// Whatever the program has decided before.
TEST_F(TokenTest, ClientItselfKeepsItOffPlainText) {
  Client::Options options;
  options.server = controller_.address();
  options.timeout = absl::Seconds(20);
  options.token = [file = token_file_] { return ReadUserToken(file); };
  Client client(options, interrupt_);
  EXPECT_EQ(DeleteBy(client).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(controller_.deletes(), IsEmpty());
}

}  // namespace
}  // namespace paceline
