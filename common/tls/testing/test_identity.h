// Certificates for tests: an authority in memory, and files for any principal.
#ifndef COMMON_TLS_TESTING_TEST_IDENTITY_H_
#define COMMON_TLS_TESTING_TEST_IDENTITY_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/key_and_request.h"
#include "common/tls/private_file.h"
#include "common/tls/tls_files.h"

namespace paceline {

inline CertificateAuthority TestAuthority(absl::Time now = absl::Now()) {
  return *CertificateAuthority::Make("test authority", now);
}

// A certificate for a new key, which is also returned.
inline std::string TestCertificate(const CertificateAuthority& authority,
                                   const CertificateAuthority::Grant& grant, absl::Time now,
                                   std::string* key) {
  *key = *NewKey();
  const auto made = authority.Sign(*MakeRequest(*key, "whatever"), grant, now);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : "";
}

// Writes the three files, issued at `now`, to a folder.
inline TlsFiles WriteIdentity(const std::string& dir, const CertificateAuthority& authority,
                              const CertificateAuthority::Grant& grant,
                              absl::Time now = absl::Now()) {
  const TlsFiles files = FilesIn(dir);
  std::string key;
  const std::string certificate = TestCertificate(authority, grant, now, &key);
  EXPECT_TRUE(WritePrivate(files.key, key).ok());
  EXPECT_TRUE(WritePublic(files.certificate, certificate).ok());
  EXPECT_TRUE(WritePublic(files.ca, authority.certificate_pem()).ok());
  return files;
}

inline CertificateAuthority::Grant ControllerOnLoopback() {
  return {{Role::kController, "c0"}, {"127.0.0.1", "localhost"}, kControllerLife};
}

}  // namespace paceline

#endif  // COMMON_TLS_TESTING_TEST_IDENTITY_H_
