#include "worker/daemon/state/job_user.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Why(const std::string& run_as) {
  const auto user = FindJobUser(run_as);
  EXPECT_EQ(user.status().code(), absl::StatusCode::kInvalidArgument) << run_as;
  return std::string(user.status().message());
}

TEST(JobUserTest, WithoutAUserTrainersAreTheDaemons) {
  const auto user = FindJobUser("");
  ASSERT_TRUE(user.ok());
  EXPECT_TRUE(user->is_own);
  EXPECT_FALSE(user->switched().has_value());
  EXPECT_EQ(user->ids.uid, ::geteuid());
  EXPECT_THAT(EnvironmentOf(*user, {"HOME=/root", "A=1"}), ElementsAre("HOME=/root", "A=1"));
  EXPECT_TRUE(CheckEnters(*user, {"/nonexistent"}).ok());
}

TEST(JobUserTest, WhoCannotBeIsNamed) {
  EXPECT_THAT(Why("no-such-user"), HasSubstr("--run-as no-such-user: there is no user"));
  EXPECT_THAT(Why("nobody:no-such-group"), HasSubstr("there is no group no-such-group"));
  EXPECT_THAT(Why("root"), HasSubstr("do not run as root"));
  EXPECT_THAT(Why("0:1"), HasSubstr("do not run as root"));
  EXPECT_THAT(Why("12345"), HasSubstr("write USER:GROUP")) << "it has no group of its own";
  for (const char* text : {":", "nobody:", ":nogroup", "a:b:c"}) {
    EXPECT_THAT(Why(text), HasSubstr("write USER or USER:GROUP"));
  }
}

TEST(JobUserTest, WhoMayNotBecomeOthersIsToldWhatIsMissing) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may become others";
  EXPECT_THAT(Why("12345:12345"), HasSubstr("this process lacks CAP_SETUID, CAP_SETGID"));
}

TEST(JobUserTest, UserHasItsGroupsAndItsHome) {
  PACELINE_NEEDS_OTHER_USERS();
  const auto user = FindJobUser("nobody");
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_FALSE(user->is_own);
  EXPECT_EQ(user->name, "nobody");
  EXPECT_EQ(user->switched()->uid, kNobody);
  EXPECT_THAT(user->switched()->groups, ElementsAre(user->ids.gid));
  EXPECT_THAT(
      EnvironmentOf(*user, {"HOME=/root", "A=1", "LOGNAME=root"}),
      ElementsAre(absl::StrCat("HOME=", user->home), "USER=nobody", "LOGNAME=nobody", "A=1"));
  const auto by_number = FindJobUser("12345:54321");
  ASSERT_TRUE(by_number.ok()) << by_number.status();
  EXPECT_EQ(by_number->ids.uid, 12345U);
  EXPECT_EQ(by_number->ids.gid, 54321U);
}

TEST(JobUserTest, FolderThatTheUserCannotEnterIsNamed) {
  PACELINE_NEEDS_OTHER_USERS();
  std::string dir = "/tmp/job_user_test.XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  const JobUser user = *FindJobUser("nobody");
  EXPECT_THAT(std::string(CheckEnters(user, {"/", dir}).message()),
              HasSubstr("user nobody of --run-as cannot enter " + dir + ": Permission denied"));
  ASSERT_EQ(::chmod(dir.c_str(), 0711), 0);
  EXPECT_TRUE(CheckEnters(user, {"/", dir}).ok());
  EXPECT_EQ(::geteuid(), 0U) << "only a thread asked as somebody else";
  std::filesystem::remove(dir);
}

TEST(JobUserTest, LinkIsGivenAndNotWhatItLeadsTo) {
  PACELINE_NEEDS_OTHER_USERS();
  std::string dir = "/tmp/job_user_test.XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  std::filesystem::create_directory(dir + "/folder");
  ASSERT_EQ(::symlink("folder", (dir + "/link").c_str()), 0);
  const JobUser user = *FindJobUser("nobody");
  EXPECT_TRUE(GiveTo(user, dir + "/link").ok());
  struct stat info;
  ASSERT_EQ(::stat((dir + "/folder").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
  EXPECT_TRUE(GiveTo(user, dir + "/folder").ok());
  ASSERT_EQ(::stat((dir + "/folder").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kNobody);
  EXPECT_FALSE(GiveTo(user, dir + "/none").ok());
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace paceline
