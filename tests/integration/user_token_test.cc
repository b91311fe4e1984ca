// Users with tokens at a controller that uses TLS, seen by the commands and by an admin who adds
// and removes tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tls/key_and_request.h"
#include "common/tls/private_file.h"
#include "tests/integration/process.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Of cli/exit_codes.h.
constexpr int kNotPermitted = 5;

const std::string kViewer = "q3Zr+x0mH7/tB2cVw9kLpYs4nEjD6uGa";
const std::string kOperator = "W1fTzQ8rNc5yKe7bLh2uXv0jSoA9iMdP";
const std::string kNobody = "Jd6pGx4sRt9vBn3mHq8wCy1zUk5eLf0a";

std::string NewFolder() {
  std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/tokensXXXXXX";
  return mkdtemp(pattern.data());
}

class UserTokenTest : public ::testing::Test {
 protected:
  UserTokenTest() {
    GiveTokens(absl::StrCat(Sha256Hex(kViewer), " viewer vic\n", Sha256Hex(kOperator),
                            " operator olga\n"));
    TestNetwork network;
    network.tls = true;
    network.controller_flags = {"--user-tokens", users_};
    cluster_.emplace(/*workers=*/1, /*slots=*/1, network);
  }

  // Writes the controller's file of tokens.
  void GiveTokens(const std::string& lines) const { ASSERT_TRUE(WritePrivate(users_, lines).ok()); }

  // Runs `paceline` with the token and the authority's certificate in this folder.
  Finished By(const std::string& token, const std::vector<std::string>& arguments,
              const std::string& dir = "ca") const {
    const std::string file = directory_ + "/token";
    EXPECT_TRUE(WritePrivate(file, token + "\n").ok());
    std::vector<std::string> command = {
        Program("paceline"), "--server", cluster_->server(), "--tls-dir", cluster_->TlsDir(dir),
        "--token-file",      file,       "--timeout",        "20"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Finished ran = RunToEnd(command);
    EXPECT_THAT(ran.output, Not(HasSubstr(token)));
    return ran;
  }

  const std::string directory_ = NewFolder();
  const std::string users_ = directory_ + "/user-tokens";
  std::optional<TestCluster> cluster_;
};

TEST_F(UserTokenTest, GivesItsRoleAndNoMore) {
  const Finished who = By(kViewer, {"whoami", "-o", "json"});
  ASSERT_EQ(who.exit_code, 0) << who.output;
  const auto known = nlohmann::json::parse(who.output, nullptr, false);
  ASSERT_FALSE(known.is_discarded()) << who.output;
  EXPECT_EQ(known["principal"], "paceline://viewer/vic");
  EXPECT_EQ(known["role"], "viewer");
  EXPECT_EQ(known["plaintext"], false);
  EXPECT_THAT(By(kViewer, {"whoami"}).output, HasSubstr("paceline://viewer/vic"));

  const Finished listed = By(kViewer, {"node", "list", "-o", "name"});
  EXPECT_EQ(listed.exit_code, 0) << listed.output;
  EXPECT_THAT(listed.output, HasSubstr("w0"));
  const std::vector<std::string> cordon = {"node",    "cordon",  "w0", "--reason",
                                           "just so", "--owner", "vic"};
  const Finished refused = By(kViewer, cordon);
  EXPECT_EQ(refused.exit_code, kNotPermitted) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("viewer vic may not call"));
  EXPECT_THAT(refused.output, HasSubstr("needs the role operator"));
  const Finished done = By(kOperator, cordon);
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_EQ(By(kOperator, {"node", "uncordon", "w0", "--owner", "vic"}).exit_code, 0);

  // No token occurs in the log or the audit record.
  for (const char* file : {"/controller.log", "/controller/audit.jsonl"}) {
    const std::string text = ReadFile(cluster_->directory() + file);
    EXPECT_FALSE(text.empty()) << file;
    for (const std::string& token : {kViewer, kOperator}) {
      EXPECT_THAT(text, Not(HasSubstr(token))) << file;
    }
  }
}

TEST_F(UserTokenTest, IsShownInThePlaceOfACertificate) {
  const Finished who = By(kViewer, {"whoami"}, "admin");
  EXPECT_EQ(who.exit_code, 0) << who.output;
  EXPECT_THAT(who.output, HasSubstr("paceline://viewer/vic"));
}

TEST_F(UserTokenTest, OfNobodyIsRefusedClearly) {
  const Finished refused = By(kNobody, {"job", "list"});
  EXPECT_EQ(refused.exit_code, kNotPermitted) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("the token is not one of this controller's"));
}

TEST_F(UserTokenTest, ThatWasTakenAwayIsRefusedWithoutARestart) {
  ASSERT_EQ(By(kViewer, {"job", "list"}).exit_code, 0);
  GiveTokens(absl::StrCat(Sha256Hex(kOperator), " operator olga\n"));
  Finished refused;
  EXPECT_TRUE(Eventually([&] {
    refused = By(kViewer, {"job", "list"});
    return refused.exit_code != 0;
  }));
  EXPECT_EQ(refused.exit_code, kNotPermitted) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("the token is not one of this controller's"));
  EXPECT_EQ(By(kOperator, {"job", "list"}).exit_code, 0);
}

}  // namespace
}  // namespace paceline
