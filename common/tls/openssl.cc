#include "common/tls/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <time.h>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

BioPtr Reader(absl::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Otherwise the library would ask on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

template <typename Write>
std::string Written(const Write& write) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return "";
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

absl::Status OpenSslError(absl::string_view what) {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(what, reason == nullptr ? "" : ": ", reason == nullptr ? "" : reason));
}

absl::StatusOr<X509Ptr> ParseCertificate(absl::string_view pem) {
  X509Ptr certificate(PEM_read_bio_X509(Reader(pem).get(), nullptr, NoPassword, nullptr));
  if (certificate == nullptr) return OpenSslError("holds no certificate in PEM");
  return certificate;
}

absl::StatusOr<KeyPtr> ParseKey(absl::string_view pem) {
  KeyPtr key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) return OpenSslError("holds no private key in PEM without a password");
  return key;
}

absl::StatusOr<RequestPtr> ParseRequest(absl::string_view pem) {
  RequestPtr request(PEM_read_bio_X509_REQ(Reader(pem).get(), nullptr, NoPassword, nullptr));
  if (request == nullptr) return OpenSslError("holds no certificate request in PEM");
  return request;
}

std::string PemOf(X509* certificate) {
  return Written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string PemOf(EVP_PKEY* key) {
  return Written([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string PemOf(X509_REQ* request) {
  return Written([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request); });
}

absl::Time FromAsn1(const ASN1_TIME* time) {
  tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&parts));
}

}  // namespace paceline
