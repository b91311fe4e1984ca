#include "common/tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/tls/openssl.h"

namespace paceline {
namespace {

using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpenSslFree<GENERAL_NAMES_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpenSslFree<X509_STORE_CTX_free>>;

std::string TextOf(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

std::string AddressOf(const std::string& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

std::string CommonName(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return "";
  return TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

std::string FingerprintOf(const X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest, &size) != 1) return "";
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), size});
}

// Reads the certificate's names: URIs and hosts.
void ReadNames(const X509* certificate, std::vector<std::string>* uris,
               std::vector<std::string>* hosts) {
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr) return;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) uris->push_back(TextOf(name->d.uniformResourceIdentifier));
    if (name->type == GEN_DNS) hosts->push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_IPADD) hosts->push_back(AddressOf(TextOf(name->d.iPAddress)));
  }
}

absl::StatusOr<StorePtr> StoreOf(absl::string_view ca_pem) {
  StorePtr store(X509_STORE_new());
  const BioPtr bio(BIO_new_mem_buf(ca_pem.data(), static_cast<int>(ca_pem.size())));
  int read = 0;
  while (true) {
    const X509Ptr authority(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (authority == nullptr) break;
    X509_STORE_add_cert(store.get(), authority.get());
    ++read;
  }
  // The library reports the end of the text as an error.
  ERR_clear_error();
  if (read == 0) return absl::InvalidArgumentError("the authority's file holds no certificate");
  return store;
}

absl::Status CheckTimes(const X509* certificate, absl::string_view what, absl::Time now) {
  const absl::Time from = FromAsn1(X509_get0_notBefore(certificate));
  const absl::Time to = FromAsn1(X509_get0_notAfter(certificate));
  if (now < from) {
    return absl::OutOfRangeError(absl::StrCat(what, " is not valid before ", TimeText(from),
                                              ", and this machine's clock ", "says ", TimeText(now),
                                              ": is the clock right?"));
  }
  if (now > to) {
    return absl::OutOfRangeError(absl::StrCat(what, " has expired on ", TimeText(to),
                                              "; this machine's clock says ", TimeText(now)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::StatusOr<Certificate> ReadCertificate(absl::string_view pem) {
  PACELINE_ASSIGN_OR_RETURN(const X509Ptr parsed, ParseCertificate(pem));
  Certificate certificate;
  std::vector<std::string> uris;
  ReadNames(parsed.get(), &uris, &certificate.hosts);
  if (uris.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("names ", uris.size(), " URIs, where Paceline's name exactly one principal"));
  }
  PACELINE_ASSIGN_OR_RETURN(certificate.principal, ParsePrincipalUri(uris[0]));
  certificate.not_before = FromAsn1(X509_get0_notBefore(parsed.get()));
  certificate.not_after = FromAsn1(X509_get0_notAfter(parsed.get()));
  certificate.issuer = CommonName(X509_get_issuer_name(parsed.get()));
  certificate.fingerprint = FingerprintOf(parsed.get());
  return certificate;
}

absl::StatusOr<CertificateTimes> TimesOf(absl::string_view pem) {
  PACELINE_ASSIGN_OR_RETURN(const X509Ptr parsed, ParseCertificate(pem));
  return CertificateTimes{FromAsn1(X509_get0_notBefore(parsed.get())) + kClockAllowance,
                          FromAsn1(X509_get0_notAfter(parsed.get()))};
}

absl::Status CheckCertificate(absl::string_view pem, absl::string_view ca_pem, absl::Time now) {
  PACELINE_ASSIGN_OR_RETURN(const X509Ptr certificate, ParseCertificate(pem));
  PACELINE_ASSIGN_OR_RETURN(const StorePtr store, StoreOf(ca_pem));
  const StoreContextPtr context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr) != 1) {
    return OpenSslError("the certificate cannot be verified");
  }
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_NO_CHECK_TIME);
  if (X509_verify_cert(context.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(context.get());
    ERR_clear_error();
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate is not signed by the authority of its ca.pem (",
                     X509_verify_cert_error_string(error), ")"));
  }
  STACK_OF(X509)* chain = X509_STORE_CTX_get0_chain(context.get());
  PACELINE_RETURN_IF_ERROR(CheckTimes(certificate.get(), "the certificate", now));
  return CheckTimes(sk_X509_value(chain, sk_X509_num(chain) - 1), "the authority", now);
}

}  // namespace paceline
