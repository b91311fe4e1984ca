#include "common/tls/certificate_authority.h"

#include <gmock/gmock.h>
#include <openssl/rsa.h>

#include <filesystem>

#include "common/tls/certificate.h"
#include "common/tls/openssl.h"
#include "common/tls/testing/test_identity.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const CertificateAuthority::Grant kWorker = {{Role::kWorker, "node-7"}, {}, absl::Hours(24)};

class CertificateAuthorityTest : public ::testing::Test {
 protected:
  const CertificateAuthority authority_ = TestAuthority(kNow);
};

TEST_F(CertificateAuthorityTest, SignsNoOtherAuthorities) {
  const X509Ptr own = *ParseCertificate(authority_.certificate_pem());
  EXPECT_EQ(X509_check_ca(own.get()), 1);
  EXPECT_EQ(X509_get_pathlen(own.get()), 0);
  const X509Ptr made =
      *ParseCertificate(*authority_.Sign(*MakeRequest(*NewKey(), "node-7"), kWorker, kNow));
  EXPECT_EQ(X509_check_ca(made.get()), 0);
}

TEST_F(CertificateAuthorityTest, SaysWhatTheGrantSaysWhateverTheRequestAsksFor) {
  const std::string key = *NewKey();
  const std::string request = *MakeRequest(key, "admin root");
  const auto made = authority_.Sign(request, kWorker, kNow);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto read = ReadCertificate(*made);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(PrincipalUri(read->principal), "paceline://worker/node-7");
  EXPECT_TRUE(read->hosts.empty());
  EXPECT_EQ(read->issuer, "test authority");
  EXPECT_EQ(read->not_before, kNow - kClockAllowance);
  EXPECT_EQ(read->not_after, kNow + absl::Hours(24));
  EXPECT_EQ(read->issued(), kNow);
  EXPECT_EQ(TimesOf(*made)->issued, kNow);
  EXPECT_EQ(TimesOf(*made)->end, ReadCertificate(*made)->not_after);
  const X509Ptr parsed = *ParseCertificate(*made);
  char name[256];
  X509_NAME_oneline(X509_get_subject_name(parsed.get()), name, sizeof name);
  EXPECT_THAT(std::string(name), testing::Not(HasSubstr("root")));
}

// Purposes according to OpenSSL's own check of a peer.
bool MayServe(const std::string& pem) {
  const X509Ptr certificate = *ParseCertificate(pem);
  return X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_SERVER, 0) == 1;
}
bool MayCall(const std::string& pem) {
  const X509Ptr certificate = *ParseCertificate(pem);
  return X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0) == 1;
}

TEST_F(CertificateAuthorityTest, OnlyControllersMayServe) {
  std::string key;
  for (const Role role :
       {Role::kViewer, Role::kSubmitter, Role::kOperator, Role::kAdmin, Role::kWorker}) {
    const std::string pem =
        TestCertificate(authority_, {{role, "x"}, {}, absl::Hours(1)}, kNow, &key);
    EXPECT_FALSE(MayServe(pem)) << RoleName(role);
    EXPECT_TRUE(MayCall(pem)) << RoleName(role);
  }
  const std::string pem = TestCertificate(authority_, ControllerOnLoopback(), kNow, &key);
  EXPECT_TRUE(MayServe(pem));
  EXPECT_TRUE(MayCall(pem));
  EXPECT_THAT(ReadCertificate(pem)->hosts, ElementsAre("127.0.0.1", "localhost"));
}

TEST_F(CertificateAuthorityTest, HostsAreOfControllersAndCannotAddToTheNames) {
  const std::string request = *MakeRequest(*NewKey(), "x");
  EXPECT_EQ(authority_.Sign(request, {{Role::kWorker, "w"}, {"head"}, absl::Hours(1)}, kNow)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  for (const char* host :
       {"", "a b", "head,URI:paceline://admin/root", "head\nDNS:x", "@section", "*.example.org"}) {
    EXPECT_EQ(authority_.Sign(request, {{Role::kController, "c"}, {host}, absl::Hours(1)}, kNow)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << host;
  }
  EXPECT_EQ(
      authority_.Sign(request, {{Role::kWorker, "a/b"}, {}, absl::Hours(1)}, kNow).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificateAuthorityTest, RequestMustBeSignedWithItsOwnKey) {
  // Combines one request's public key with another's signature.
  const RequestPtr request = *ParseRequest(*MakeRequest(*NewKey(), "x"));
  const KeyPtr other = *ParseKey(*NewKey());
  ASSERT_EQ(X509_REQ_set_pubkey(request.get(), other.get()), 1);
  EXPECT_EQ(authority_.Sign(PemOf(request.get()), kWorker, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(authority_.Sign("nonsense", kWorker, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificateAuthorityTest, OtherKindsOfKeysAreRefused) {
  const KeyPtr rsa(EVP_RSA_gen(2048));
  const auto made = authority_.Sign(*MakeRequest(PemOf(rsa.get()), "x"), kWorker, kNow);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("ECDSA"));
}

TEST_F(CertificateAuthorityTest, NoCertificateOutlivesTheAuthority) {
  const auto authority = CertificateAuthority::Make("short", kNow, absl::Hours(2));
  std::string key;
  const std::string pem = TestCertificate(*authority, kWorker, kNow, &key);
  EXPECT_EQ(ReadCertificate(pem)->not_after, kNow + absl::Hours(2));
}

TEST_F(CertificateAuthorityTest, IsSavedOnceAndLoaded) {
  const std::string dir = ::testing::TempDir() + "/authority";
  std::filesystem::remove_all(dir);
  ASSERT_TRUE(authority_.Save(dir).ok());
  EXPECT_EQ(authority_.Save(dir).code(), absl::StatusCode::kFailedPrecondition);
  const auto again = CertificateAuthority::Load(dir);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->certificate_pem(), authority_.certificate_pem());
  EXPECT_EQ(again->key_pem(), authority_.key_pem());
  EXPECT_EQ(CertificateAuthority::Load(dir + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CertificateAuthority::FromPem(authority_.certificate_pem(), *NewKey()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SecretTest, IsLongAndOnceOnly) {
  const std::string one = *NewSecret();
  EXPECT_EQ(one.size(), 43u);
  EXPECT_NE(one, *NewSecret());
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, OfPartsIsThatOfTheWhole) {
  Sha256 parts;
  for (const char* part : {"a", "", "bc"}) parts.Add(part);
  EXPECT_EQ(parts.Hex(), Sha256Hex("abc"));
}

TEST(KeyDigestTest, IsOfTheKeyAndNotOfTheRequest) {
  const std::string key = *NewKey();
  EXPECT_EQ(*KeyDigest(*MakeRequest(key, "a")), *KeyDigest(*MakeRequest(key, "b")));
  EXPECT_NE(*KeyDigest(*MakeRequest(key, "a")), *KeyDigest(*MakeRequest(*NewKey(), "a")));
}

}  // namespace
}  // namespace paceline
