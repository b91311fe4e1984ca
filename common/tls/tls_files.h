// The three files by which a process proves who it is and knows whom to believe.
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
  std::string ca;           // Certificates of the authorities that are believed.
  std::string certificate;  // Empty, with the key: it proves nothing of itself.
  std::string key;
};

// DIR/ca.pem, DIR/cert.pem and DIR/key.pem.
TlsFiles FilesIn(const std::string& dir);

// Reads them and says exactly what is wrong, which file, and what to do. NotFound: missing;
// PermissionDenied: cannot be read, or the key is open to everybody on the machine;
// InvalidArgument: damaged; FailedPrecondition: the key does not fit, or another authority has
// signed; OutOfRange: not valid yet or no longer at `now`, and all else is well.
absl::StatusOr<Certificate> CheckTlsFiles(const TlsFiles& files, absl::Time now);

// When the certificate in the files ends. None without files, or when it cannot be read.
std::optional<absl::Time> CertificateEnd(const std::optional<TlsFiles>& files);

// As CheckTlsFiles for files that prove nothing: the authority alone.
absl::Status CheckAuthorityFile(const std::string& path);

}  // namespace paceline

#endif  // COMMON_TLS_TLS_FILES_H_
