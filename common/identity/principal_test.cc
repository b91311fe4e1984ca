#include "common/identity/principal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

constexpr Role kRoles[] = {Role::kViewer, Role::kSubmitter, Role::kOperator,
                           Role::kAdmin,  Role::kWorker,    Role::kController};

TEST(PrincipalTest, UrisAreReadAsTheyAreWritten) {
  EXPECT_EQ(PrincipalUri({Role::kWorker, "node-7"}), "paceline://worker/node-7");
  for (const Role role : kRoles) {
    const Principal principal = {role, "A.b_c-9"};
    const absl::StatusOr<Principal> read = ParsePrincipalUri(PrincipalUri(principal));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, principal);
  }
}

TEST(PrincipalTest, NothingElseIsRead) {
  const std::string long_name(64, 'x');
  for (const std::string& uri :
       std::vector<std::string>{"",
                                "paceline://",
                                "paceline://worker",
                                "paceline://worker/",
                                "paceline:///ann",
                                "paceline://worker/a/b",
                                "paceline://worker/a/",
                                "Paceline://worker/a",
                                "paceline://Worker/a",
                                "paceline://none/a",
                                "paceline://root/a",
                                "spiffe://worker/a",
                                " paceline://worker/a",
                                "paceline://worker/a ",
                                "paceline://worker/a%20b",
                                "paceline://worker/a?b",
                                "paceline://worker@host/a",
                                "paceline://worker/\xc3\xa4",
                                "paceline://worker/" + long_name,
                                std::string("paceline://worker/a\0b", 21)}) {
    EXPECT_EQ(ParsePrincipalUri(uri).status().code(), absl::StatusCode::kInvalidArgument) << uri;
  }
  EXPECT_TRUE(ParsePrincipalUri("paceline://worker/" + long_name.substr(1)).ok());
}

TEST(PrincipalTest, RolesOfUsersAreOrderedAndThoseOfDaemonsStandBeside) {
  const std::vector<Role> users = {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin};
  for (size_t have = 0; have < users.size(); ++have) {
    for (size_t need = 0; need < users.size(); ++need) {
      EXPECT_EQ(Includes(users[have], users[need]), have >= need) << have << " " << need;
    }
  }
  for (const Role daemon : {Role::kWorker, Role::kController}) {
    for (const Role role : kRoles) {
      EXPECT_EQ(Includes(daemon, role), daemon == role) << RoleName(role);
      EXPECT_EQ(Includes(role, daemon), daemon == role) << RoleName(role);
    }
  }
}

TEST(PrincipalTest, NobodyMayOnlyWhatNeedsNoRole) {
  for (const Role role : kRoles) {
    EXPECT_FALSE(Includes(Role::kNone, role)) << RoleName(role);
    EXPECT_TRUE(Includes(role, Role::kNone)) << RoleName(role);
  }
  EXPECT_TRUE(Includes(Role::kNone, Role::kNone));
}

TEST(PrincipalTest, WhoKnowsOfEverybodysJobs) {
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin}) {
    EXPECT_TRUE(SeesAllJobs(role)) << RoleName(role);
  }
  for (const Role role : {Role::kNone, Role::kSubmitter, Role::kWorker, Role::kController}) {
    EXPECT_FALSE(SeesAllJobs(role)) << RoleName(role);
  }
}

TEST(PrincipalTest, SubmittersAndWorkersReadNoPagesOfEverybodysJobs) {
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin, Role::kController}) {
    EXPECT_TRUE(CheckReader({role, "x"}).ok()) << RoleName(role);
  }
  for (const Role role : {Role::kNone, Role::kSubmitter, Role::kWorker}) {
    EXPECT_EQ(CheckReader({role, "x"}).code(), absl::StatusCode::kPermissionDenied)
        << RoleName(role);
  }
}

TEST(PrincipalTest, NamesOfRoles) {
  for (const Role role : kRoles) {
    const absl::StatusOr<Role> read = ParseRole(RoleName(role));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, role);
  }
  EXPECT_FALSE(ParseRole("none").ok());
  EXPECT_FALSE(ParseRole("ADMIN").ok());
  EXPECT_EQ(PrincipalText({Role::kOperator, "ann"}), "operator ann");
  EXPECT_EQ(PrincipalText({}), "nobody");
}

}  // namespace
}  // namespace paceline
