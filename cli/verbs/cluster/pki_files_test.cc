#include "cli/verbs/cluster/pki_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "absl/time/clock.h"
#include "common/tls/private_file.h"
#include "common/tls/testing/test_identity.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

std::string NewFolder() {
  std::string folder = ::testing::TempDir() + "/pkiXXXXXX";
  return mkdtemp(folder.data());
}

CertificateAuthority::Grant Ann(Role role) { return {{role, "ann"}, {}, absl::Hours(24)}; }

TEST(RotateInTest, RenewsWhatTheAuthorityHasSignedAlsoWhenItHasEnded) {
  const absl::Time now = absl::Now();
  const absl::Time before = now - absl::Hours(24 * 30);
  const CertificateAuthority authority = TestAuthority(before);
  const std::string dir = NewFolder();
  WriteIdentity(dir, authority, Ann(Role::kViewer), before);
  const auto rotated = RotateIn(authority, dir, /*new_key=*/false, absl::Hours(1), now);
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(rotated->principal.name, "ann");
  EXPECT_EQ(rotated->principal.role, Role::kViewer);
  EXPECT_TRUE(CheckTlsFiles(FilesIn(dir), now).ok());
}

TEST(RotateInTest, VouchesForNobodyWhomAnotherAuthorityHasNamed) {
  const absl::Time now = absl::Now();
  const CertificateAuthority authority = TestAuthority(now);
  const std::string dir = NewFolder();
  const TlsFiles files = WriteIdentity(dir, TestAuthority(now), Ann(Role::kAdmin), now);
  const std::string planted = *ReadWhole(files.certificate);
  const auto rotated = RotateIn(authority, dir, /*new_key=*/true, absl::ZeroDuration(), now);
  EXPECT_EQ(rotated.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(rotated.status().message()), HasSubstr(files.certificate));
  EXPECT_EQ(*ReadWhole(files.certificate), planted);
}

}  // namespace
}  // namespace paceline
