#include "cli/config/user_token.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kToken = "q3Zr+x0mH7/tB2cVw9kLpYs4nEjD6uGa";

class UserTokenTest : public ::testing::Test {
 protected:
  UserTokenTest() {
    std::string folder = ::testing::TempDir() + "/tokenXXXXXX";
    path_ = std::string(mkdtemp(folder.data())) + "/token";
  }

  void Write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  void ExpectRefused(absl::StatusCode code, const std::string& text) const {
    const auto token = ReadUserToken(path_);
    EXPECT_EQ(token.status().code(), code) << token.status();
    EXPECT_THAT(std::string(token.status().message()), HasSubstr(path_));
    EXPECT_THAT(std::string(token.status().message()), HasSubstr(text));
    EXPECT_THAT(token.status().ToString(), Not(HasSubstr(kToken.substr(0, 8))));
  }

  std::string path_;
};

TEST_F(UserTokenTest, IsTheLineOfTheFile) {
  for (const std::string& text : {kToken, kToken + "\n", kToken + "\r\n"}) {
    Write(text);
    const auto token = ReadUserToken(path_);
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(*token, kToken);
  }
  Write(std::string(512, 'x'), 0400);
  EXPECT_TRUE(ReadUserToken(path_).ok());
}

TEST_F(UserTokenTest, FileThatOthersMayUseIsRefused) {
  for (const mode_t mode : {0640, 0620, 0610, 0604, 0602, 0601}) {
    Write(kToken, mode);
    ExpectRefused(absl::StatusCode::kPermissionDenied, "chmod 600 " + path_);
  }
}

TEST_F(UserTokenTest, WhatIsNoTokenIsNotSent) {
  const std::string one_line = "must be one line of 32 to 512 characters";
  for (const std::string& text :
       {std::string(), kToken.substr(1), absl::StrCat(kToken, "\n", kToken), kToken + " ann",
        kToken + "\x01", std::string(513, 'x')}) {
    Write(text);
    ExpectRefused(absl::StatusCode::kInvalidArgument, one_line);
  }
}

TEST_F(UserTokenTest, WhatIsNoFileIsRefusedAtOnce) {
  ExpectRefused(absl::StatusCode::kNotFound, "is missing");
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "is no regular file");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "is no regular file");
}

}  // namespace
}  // namespace paceline
