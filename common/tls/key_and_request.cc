#include "common/tls/key_and_request.h"

#include <openssl/ec.h>
#include <openssl/rand.h>
#include <string.h>

#include "absl/strings/escaping.h"
#include "common/core/status_macros.h"
#include "common/tls/openssl.h"

namespace paceline {

absl::StatusOr<std::string> NewKey() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("a key cannot be made");
  return PemOf(key.get());
}

absl::StatusOr<std::string> MakeRequest(absl::string_view key_pem, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const KeyPtr key, ParseKey(key_pem));
  const RequestPtr request(X509_REQ_new());
  if (request == nullptr) return OpenSslError("a request cannot be made");
  X509_NAME* subject = X509_REQ_get_subject_name(request.get());
  const bool made = X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
                    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                               reinterpret_cast<const unsigned char*>(name.data()),
                                               static_cast<int>(name.size()), -1, 0) == 1 &&
                    X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                    X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0;
  if (!made) return OpenSslError("a request cannot be made");
  return PemOf(request.get());
}

absl::StatusOr<std::string> KeyDigest(absl::string_view request_pem) {
  PACELINE_ASSIGN_OR_RETURN(const RequestPtr request, ParseRequest(request_pem));
  unsigned char* bytes = nullptr;
  const int size = i2d_PUBKEY(X509_REQ_get0_pubkey(request.get()), &bytes);
  if (size <= 0) return OpenSslError("the request has no public key");
  const std::string digest = Sha256Hex({reinterpret_cast<const char*>(bytes), size_t(size)});
  OPENSSL_free(bytes);
  return digest;
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 sha256;
  sha256.Add(bytes);
  return sha256.Hex();
}

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

void Sha256::Add(absl::string_view part) {
  EVP_DigestUpdate(context_.get(), part.data(), part.size());
}

std::string Sha256::Hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), digest, &size);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), size});
}

absl::StatusOr<std::string> NewSecret() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return OpenSslError("no randomness");
  std::string text;
  absl::WebSafeBase64Escape({reinterpret_cast<const char*>(bytes), sizeof bytes}, &text);
  return text;
}

}  // namespace paceline
