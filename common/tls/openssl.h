// Owning pointers to OpenSSL's objects, and their text forms. Only for the files of this folder.
#ifndef COMMON_TLS_OPENSSL_H_
#define COMMON_TLS_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

template <auto Free>
struct OpenSslFree {
  template <typename Object>
  void operator()(Object* object) const {
    Free(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpenSslFree<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, OpenSslFree<X509_REQ_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpenSslFree<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, OpenSslFree<SSL_free>>;

// "WHAT: " and the library's newest reason; empties the thread's list of errors.
absl::Status OpenSslError(absl::string_view what);

// Reads the first of its kind from PEM. InvalidArgument: none; a key with a password is none.
absl::StatusOr<X509Ptr> ParseCertificate(absl::string_view pem);
absl::StatusOr<KeyPtr> ParseKey(absl::string_view pem);
absl::StatusOr<RequestPtr> ParseRequest(absl::string_view pem);

std::string PemOf(X509* certificate);
std::string PemOf(EVP_PKEY* key);
std::string PemOf(X509_REQ* request);

absl::Time FromAsn1(const ASN1_TIME* time);

}  // namespace paceline

#endif  // COMMON_TLS_OPENSSL_H_
