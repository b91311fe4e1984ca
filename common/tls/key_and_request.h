// Private keys, requests for certificates of them, and digests. ECDSA over P-256 (FIPS 186-4),
// which every TLS library of today takes.
//
// Thread-safe.
#ifndef COMMON_TLS_KEY_AND_REQUEST_H_
#define COMMON_TLS_KEY_AND_REQUEST_H_

#include <openssl/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Makes a private key: PEM (PKCS #8, without a password).
absl::StatusOr<std::string> NewKey();

// A request for a certificate of the key, signed with it: PEM (PKCS #10). The name in it is only a
// wish: the signer decides. InvalidArgument: `key_pem` holds no key.
absl::StatusOr<std::string> MakeRequest(absl::string_view key_pem, const std::string& name);

// SHA-256 of a request's public key, 64 hexadecimal digits. InvalidArgument: not a request.
absl::StatusOr<std::string> KeyDigest(absl::string_view request_pem);

// SHA-256 of bytes, 64 hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);

// The same of bytes that come in parts.
class Sha256 {
 public:
  Sha256();
  void Add(absl::string_view part);
  // Of all parts. Once, at the end.
  std::string Hex();

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// 32 random bytes as 43 characters of base64url, for secrets.
absl::StatusOr<std::string> NewSecret();

}  // namespace paceline

#endif  // COMMON_TLS_KEY_AND_REQUEST_H_
