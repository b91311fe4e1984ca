// The three files with which a process proves its identity and checks that of others.
//
// Thread-safe.
#ifndef COMMON_TLS_TLS_FILES_H_
#define COMMON_TLS_TLS_FILES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/certificate.h"

namespace paceline {

struct TlsFiles {
  std::string ca;           // Certificates of the trusted authorities.
  std::string certificate;  // Empty, like the key, if it proves no identity.
  std::string key;
};

// DIR/ca.pem, DIR/cert.pem and DIR/key.pem.
TlsFiles FilesIn(const std::string& dir);

// Reads the files and says exactly what is wrong, in which file, and what to do. NotFound: missing;
// PermissionDenied: unreadable, or everybody on the machine can read the key; InvalidArgument:
// damaged; FailedPrecondition: the key does not match, or another authority has signed; OutOfRange:
// not valid yet or expired at `now`, and all else is well.
absl::StatusOr<Certificate> CheckTlsFiles(const TlsFiles& files, absl::Time now);

// When the certificate ends. Empty without files, or when it cannot be read.
std::optional<absl::Time> CertificateEnd(const std::optional<TlsFiles>& files);

// Like CheckTlsFiles for files without an identity: checks only the authority.
absl::Status CheckAuthorityFile(const std::string& path);

}  // namespace paceline

#endif  // COMMON_TLS_TLS_FILES_H_
