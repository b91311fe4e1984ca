#include "common/tls/tls_files.h"

#include <openssl/err.h>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/tls/openssl.h"
#include "common/tls/private_file.h"

namespace paceline {
namespace {

absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::IsNotFound(status)) return status;
  return absl::NotFoundError(
      absl::StrCat(status.message(),
                   ": `paceline pki issue` makes it, and a worker gets it by a join token "
                   "(docs/security.md)"));
}

}  // namespace

TlsFiles FilesIn(const std::string& dir) {
  return {dir + "/ca.pem", dir + "/cert.pem", dir + "/key.pem"};
}

absl::StatusOr<Certificate> CheckTlsFiles(const TlsFiles& files, absl::Time now) {
  const absl::StatusOr<std::string> ca = ReadWhole(files.ca);
  if (!ca.ok()) return WithAdvice(ca.status());
  const absl::StatusOr<std::string> pem = ReadWhole(files.certificate);
  if (!pem.ok()) return WithAdvice(pem.status());
  const absl::StatusOr<std::string> key_pem = ReadPrivate(files.key);
  if (!key_pem.ok()) return WithAdvice(key_pem.status());
  const absl::StatusOr<KeyPtr> key = ParseKey(*key_pem);
  if (!key.ok()) return In(files.key, key.status());
  const absl::StatusOr<X509Ptr> parsed = ParseCertificate(*pem);
  if (!parsed.ok()) return In(files.certificate, parsed.status());
  if (X509_check_private_key(parsed->get(), key->get()) != 1) {
    ERR_clear_error();
    return absl::FailedPreconditionError(absl::StrCat(
        files.key, " is not the key of the certificate in ", files.certificate,
        ": copy both from the same place, or make both again with `paceline pki issue`"));
  }
  absl::StatusOr<Certificate> certificate = ReadCertificate(*pem);
  if (!certificate.ok()) return In(files.certificate, certificate.status());
  const absl::Status held = CheckCertificate(*pem, *ca, now);
  if (!held.ok()) return In(files.certificate, held);
  return certificate;
}

std::optional<absl::Time> CertificateEnd(const std::optional<TlsFiles>& files) {
  if (!files.has_value()) return std::nullopt;
  const absl::StatusOr<std::string> pem = ReadWhole(files->certificate);
  if (!pem.ok()) return std::nullopt;
  const absl::StatusOr<Certificate> certificate = ReadCertificate(*pem);
  if (!certificate.ok()) return std::nullopt;
  return certificate->not_after;
}

absl::Status CheckAuthorityFile(const std::string& path) {
  const absl::StatusOr<std::string> ca = ReadWhole(path);
  if (!ca.ok()) return ca.status();
  const absl::StatusOr<X509Ptr> parsed = ParseCertificate(*ca);
  return parsed.ok() ? absl::OkStatus() : In(path, parsed.status());
}

}  // namespace paceline
