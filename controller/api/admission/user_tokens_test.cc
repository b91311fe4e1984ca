#include "controller/api/admission/user_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/tls/key_and_request.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

const std::string kAnn(32, 'a');
const std::string kBob(32, 'b');

std::string Line(const std::string& token, const std::string& rest) {
  return absl::StrCat(Sha256Hex(token), " ", rest, "\n");
}

TEST(ParseUserTokensTest, ALineIsAUser) {
  const auto users =
      ParseUserTokens(absl::StrCat("# of the team\n\n", Line(kAnn, "operator ann"), "  ",
                                   absl::AsciiStrToUpper(Sha256Hex(kBob)), "\tviewer   bob\r\n"),
                      "t");
  ASSERT_TRUE(users.ok()) << users.status();
  ASSERT_EQ(users->size(), 2);
  EXPECT_EQ(users->at(Sha256Hex(kAnn)), (Principal{Role::kOperator, "ann"}));
  EXPECT_EQ(users->at(Sha256Hex(kBob)), (Principal{Role::kViewer, "bob"}));
}

TEST(ParseUserTokensTest, EveryProblemIsToldWithItsLine) {
  const auto users = ParseUserTokens(
      absl::StrCat(Line(kAnn, "operator ann"), "0123 viewer bob\n", Line(kBob, "worker w0"),
                   Line(kBob, "root bob"), Line(kBob, "viewer b/b"), Line(kBob, "viewer b b"),
                   Line(kAnn, "viewer eve")),
      "t");
  ASSERT_EQ(users.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string problems(users.status().message());
  EXPECT_THAT(problems, HasSubstr("t:2: must be the SHA-256"));
  EXPECT_THAT(problems, HasSubstr("t:3: \"worker\" is no role of a user"));
  EXPECT_THAT(problems, HasSubstr("t:4: \"root\" is no role of a user"));
  EXPECT_THAT(problems, HasSubstr("t:5: \"b/b\" is no name"));
  EXPECT_THAT(problems, HasSubstr("t:6: must be the SHA-256"));
  EXPECT_THAT(problems, HasSubstr("t:7: has the same token"));
}

class UserTokensTest : public ::testing::Test {
 protected:
  UserTokensTest() {
    std::string folder = ::testing::TempDir() + "/tokensXXXXXX";
    path_ = std::string(mkdtemp(folder.data())) + "/tokens";
  }

  // Replaces the file by a new one, which nobody else can read.
  void Write(const std::string& text, mode_t mode = 0600) {
    const std::string next = path_ + ".next";
    std::ofstream(next) << text;
    ASSERT_EQ(chmod(next.c_str(), mode), 0);
    std::filesystem::rename(next, path_);
  }
  absl::Status Refused() { return UserTokens::Open(path_).status(); }

  std::string path_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(UserTokensTest, FindsWhoseATokenIs) {
  Write(Line(kAnn, "operator ann"));
  const auto tokens = UserTokens::Open(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->Find(kAnn, now_), (Principal{Role::kOperator, "ann"}));
  EXPECT_EQ((*tokens)->Find(kBob, now_), std::nullopt);
  EXPECT_EQ((*tokens)->Find(kAnn + "a", now_), std::nullopt);
  EXPECT_EQ((*tokens)->Find(Sha256Hex(kAnn), now_), std::nullopt) << "the hash is no token";
}

TEST_F(UserTokensTest, ShortTokensAreNobodys) {
  Write(Line("hunter2", "admin eve"));
  const auto tokens = UserTokens::Open(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->Find("hunter2", now_), std::nullopt);
}

TEST_F(UserTokensTest, AChangedFileIsReadASecondLater) {
  Write(Line(kAnn, "operator ann"));
  const auto tokens = UserTokens::Open(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_TRUE((*tokens)->Find(kAnn, now_).has_value());
  Write(Line(kBob, "viewer bob"));
  EXPECT_TRUE((*tokens)->Find(kAnn, now_ + absl::Milliseconds(900)).has_value());
  EXPECT_EQ((*tokens)->Find(kAnn, now_ + absl::Seconds(1)), std::nullopt);
  EXPECT_EQ((*tokens)->Find(kBob, now_ + absl::Seconds(1)), (Principal{Role::kViewer, "bob"}));
}

TEST_F(UserTokensTest, AChangedFileIsReadAlthoughTheClockWasSetBack) {
  Write(Line(kAnn, "operator ann"));
  const auto tokens = UserTokens::Open(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_TRUE((*tokens)->Find(kAnn, now_).has_value());
  Write(Line(kBob, "viewer bob"));
  EXPECT_EQ((*tokens)->Find(kAnn, now_ - absl::Hours(24)), std::nullopt);
}

TEST_F(UserTokensTest, AFileThatBecameBadChangesNothing) {
  Write(Line(kAnn, "operator ann"));
  const auto tokens = UserTokens::Open(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto finds_ann = [&] {
    now_ += kUserTokensInterval;
    return (*tokens)->Find(kAnn, now_).has_value();
  };
  Write("nonsense\n");
  EXPECT_TRUE(finds_ann());
  Write(Line(kBob, "viewer bob"), 0644);
  EXPECT_TRUE(finds_ann());
  EXPECT_EQ((*tokens)->Find(kBob, now_), std::nullopt);
  std::filesystem::remove(path_);
  EXPECT_TRUE(finds_ann());
  Write(Line(kBob, "viewer bob"));
  EXPECT_FALSE(finds_ann());
}

TEST_F(UserTokensTest, AFileThatOthersCanReadIsRefused) {
  for (const mode_t mode : {0604, 0620, 0602, 0601}) {
    Write(Line(kAnn, "operator ann"), mode);
    EXPECT_EQ(Refused().code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(std::string(Refused().message()), HasSubstr("chmod 640"));
  }
  for (const mode_t mode : {0600, 0640, 0400}) {
    Write(Line(kAnn, "operator ann"), mode);
    EXPECT_TRUE(Refused().ok()) << mode;
  }
}

TEST_F(UserTokensTest, WhatIsNoSmallFileIsRefused) {
  EXPECT_THAT(std::string(Refused().message()), HasSubstr(path_)) << "there is none";
  Write(std::string((1 << 20) + 1, '#'));
  EXPECT_THAT(std::string(Refused().message()), HasSubstr("1 MiB"));
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(std::string(Refused().message()), HasSubstr("regular"));
}

}  // namespace
}  // namespace paceline
