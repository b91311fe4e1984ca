// A controller's identity at its ports, according to its options.
#ifndef CONTROLLER_OWN_IDENTITY_H_
#define CONTROLLER_OWN_IDENTITY_H_

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "common/http_server.h"
#include "common/tls/tls_files.h"
#include "controller/server.h"

namespace paceline {

// Checks whether the controller may serve: in plain text on loopback only, with a warning;
// otherwise with a usable certificate of a controller.
ServerFailure CheckIdentity(const ServerOptions& options);

// The files of its certificate. None: plain text, or the credentials of a test.
std::optional<TlsFiles> IdentityFiles(const ServerOptions& options);

// Logs an error if the certificate cannot be used, and a warning from two weeks before its end on.
void LogCertificateEnd(const TlsFiles& files, absl::Time now);

// Requires: CheckIdentity succeeded.
std::shared_ptr<grpc::ServerCredentials> GrpcCredentials(const ServerOptions& options);

// The same for HTTP. None: plain text. It asks CheckReader (common/identity/principal.h).
std::optional<HttpTls> HttpTlsOf(const ServerOptions& options);

}  // namespace paceline

#endif  // CONTROLLER_OWN_IDENTITY_H_
