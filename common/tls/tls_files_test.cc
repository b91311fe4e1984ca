#include "common/tls/tls_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/tls/testing/test_identity.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);  // 2027-01-15 08:00:00 UTC

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() {
    std::filesystem::remove_all(dir_);
    files_ =
        WriteIdentity(dir_, authority_, {{Role::kWorker, "node-7"}, {}, absl::Hours(24)}, kNow);
  }

  // Expects this status at `now`, with a matching message.
  void Expect(absl::Time now, absl::StatusCode code, const ::testing::Matcher<std::string>& text) {
    const absl::Status status = CheckTlsFiles(files_, now).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), text);
  }

  const std::string dir_ = ::testing::TempDir() + "/tls_files";
  const CertificateAuthority authority_ = TestAuthority(kNow - absl::Hours(24 * 30));
  TlsFiles files_;
};

TEST_F(TlsFilesTest, GoodOnesNameTheirPrincipal) {
  const auto certificate = CheckTlsFiles(files_, kNow);
  ASSERT_TRUE(certificate.ok()) << certificate.status();
  EXPECT_EQ(PrincipalUri(certificate->principal), "paceline://worker/node-7");
  // The clock is a little slow.
  EXPECT_TRUE(CheckTlsFiles(files_, kNow - absl::Minutes(4)).ok());
}

TEST_F(TlsFilesTest, TellsWhenTheCertificateEnds) {
  EXPECT_EQ(CertificateEnd(files_), kNow + absl::Hours(24));
  EXPECT_EQ(CertificateEnd(std::nullopt), std::nullopt);
  EXPECT_EQ(CertificateEnd(FilesIn(dir_ + "/absent")), std::nullopt);
}

TEST_F(TlsFilesTest, ExpiredOneIsToldWithBothTimes) {
  Expect(kNow + absl::Hours(25), absl::StatusCode::kOutOfRange,
         AllOf(HasSubstr(files_.certificate), HasSubstr("has expired on 2027-01-16 08:00:00 UTC"),
               HasSubstr("clock says 2027-01-16 09:00:00 UTC")));
}

TEST_F(TlsFilesTest, ClockThatIsADayLateIsAskedAbout) {
  Expect(kNow - absl::Hours(24), absl::StatusCode::kOutOfRange,
         AllOf(HasSubstr("is not valid before 2027-01-15 07:55:00 UTC"),
               HasSubstr("clock says 2027-01-14 08:00:00 UTC: is the clock right?")));
}

TEST_F(TlsFilesTest, ExpiredAuthorityIsToldAsSuch) {
  const auto brief = CertificateAuthority::Make("brief", kNow, absl::Hours(1));
  std::filesystem::remove_all(dir_);
  files_ = WriteIdentity(dir_, *brief, {{Role::kViewer, "x"}, {}, absl::Hours(9)}, kNow);
  Expect(kNow + absl::Hours(2), absl::StatusCode::kOutOfRange, HasSubstr("has expired"));
}

TEST_F(TlsFilesTest, MissingFileIsNamed) {
  for (const std::string& path : {files_.ca, files_.certificate, files_.key}) {
    std::filesystem::rename(path, path + ".away");
    Expect(kNow, absl::StatusCode::kNotFound,
           AllOf(HasSubstr(path + " is missing"), HasSubstr("paceline pki issue")));
    std::filesystem::rename(path + ".away", path);
  }
}

TEST_F(TlsFilesTest, KeyThatDoesNotFitIsTold) {
  ASSERT_TRUE(WritePrivate(files_.key, *NewKey()).ok());
  Expect(kNow, absl::StatusCode::kFailedPrecondition, HasSubstr("is not the key of"));
}

TEST_F(TlsFilesTest, OtherAuthorityIsTold) {
  // With the same name: names prove nothing.
  ASSERT_TRUE(WritePublic(files_.ca, TestAuthority(kNow).certificate_pem()).ok());
  Expect(kNow, absl::StatusCode::kFailedPrecondition,
         HasSubstr("not signed by the authority of its ca.pem"));
}

TEST_F(TlsFilesTest, KeyThatIsOpenToOthersIsNotUsed) {
  ASSERT_EQ(chmod(files_.key.c_str(), 0644), 0);
  Expect(kNow, absl::StatusCode::kPermissionDenied, HasSubstr("chmod g-w,o= " + files_.key));
  ASSERT_EQ(chmod(files_.key.c_str(), 0660), 0);
  Expect(kNow, absl::StatusCode::kPermissionDenied, HasSubstr("its group can change it"));
  // A service's group may read it.
  ASSERT_EQ(chmod(files_.key.c_str(), 0640), 0);
  EXPECT_TRUE(CheckTlsFiles(files_, kNow).ok());
}

TEST_F(TlsFilesTest, GarbageIsTold) {
  ASSERT_TRUE(WritePublic(files_.certificate, "nothing of the kind\n").ok());
  Expect(kNow, absl::StatusCode::kInvalidArgument,
         AllOf(HasSubstr(files_.certificate), HasSubstr("no certificate")));
}

TEST_F(TlsFilesTest, KeyIsWrittenForItsOwnerAlone) {
  struct stat info = {};
  ASSERT_EQ(stat(files_.key.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(dir_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace paceline
