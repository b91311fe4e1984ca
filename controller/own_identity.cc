#include "controller/own_identity.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/core/loopback.h"
#include "common/exit_codes.h"
#include "common/identity/principal.h"
#include "common/log.h"
#include "common/tls/certificate.h"
#include "common/tls/credentials.h"
#include "common/tls/tls_files.h"

namespace paceline {
namespace {

constexpr absl::Duration kExpiresSoon = absl::Hours(24 * 14);

}  // namespace

ServerFailure CheckIdentity(const ServerOptions& options) {
  if (options.credentials != nullptr) return {};
  if (options.plaintext) {
    for (const std::string& address : {options.listen, options.http}) {
      if (IsLoopback(address)) continue;
      return {absl::InvalidArgumentError(absl::StrCat(
                  "--plaintext is for this machine alone, and ", address,
                  " is reached over a network, where anybody could stop every job: leave it out, "
                  "and give certificates with --tls-dir (`paceline pki init` makes them)")),
              kExitUsage};
    }
    PACELINE_LOG(WARNING) << "plaintext gRPC proves nothing and hides nothing: everybody on this "
                             "machine is an administrator of the cluster";
    return {};
  }
  const TlsFiles files = FilesIn(options.tls_dir);
  const absl::StatusOr<Certificate> own = CheckTlsFiles(files, absl::Now());
  if (!own.ok()) {
    return {absl::Status(own.status().code(),
                         absl::StrCat(own.status().message(),
                                      "\n`paceline pki init` makes an authority and a controller's "
                                      "certificate; --plaintext serves this machine without any")),
            kExitNoIdentity};
  }
  if (own->principal.role != Role::kController) {
    return {absl::FailedPreconditionError(absl::StrCat(
                files.certificate, " is the certificate of ", PrincipalUri(own->principal),
                ": a controller needs one of its own, "
                "which `paceline pki issue controller NAME --host HOST` makes")),
            kExitNoIdentity};
  }
  PACELINE_LOG(INFO) << "identity principal=" << PrincipalUri(own->principal)
                     << " expires=" << absl::FormatTime(own->not_after, absl::UTCTimeZone());
  return {};
}

std::optional<TlsFiles> IdentityFiles(const ServerOptions& options) {
  if (options.plaintext || options.credentials != nullptr) return std::nullopt;
  return FilesIn(options.tls_dir);
}

void LogCertificateEnd(const TlsFiles& files, absl::Time now) {
  const absl::StatusOr<Certificate> own = CheckTlsFiles(files, now);
  if (!own.ok()) {
    PACELINE_LOG(ERROR) << "certificate_not_usable reason=\"" << own.status().message() << "\"";
  } else if (own->not_after - now < kExpiresSoon) {
    PACELINE_LOG(WARNING) << "certificate_expires_soon time="
                          << absl::FormatTime(own->not_after, absl::UTCTimeZone())
                          << ", `paceline pki rotate` makes a new one, without a restart";
  }
}

std::shared_ptr<grpc::ServerCredentials> GrpcCredentials(const ServerOptions& options) {
  if (options.credentials != nullptr) return options.credentials;
  if (options.plaintext) return grpc::InsecureServerCredentials();
  // Calls without a certificate are accepted here: a joining node has none yet.
  return ServerCredentials(FilesIn(options.tls_dir), /*require_client_certificate=*/false);
}

std::optional<HttpTls> HttpTlsOf(const ServerOptions& options) {
  if (options.plaintext || IsLoopback(options.http)) return std::nullopt;
  return HttpTls{FilesIn(options.tls_dir),
                 [](const Principal& principal, absl::Time) { return CheckReader(principal); }};
}

}  // namespace paceline
