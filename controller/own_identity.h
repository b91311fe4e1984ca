// Who a controller is at its ports, by the options that it is started with.
#ifndef CONTROLLER_OWN_IDENTITY_H_
#define CONTROLLER_OWN_IDENTITY_H_

#include <memory>
#include <optional>

#include "common/http_server.h"
#include "common/tls/tls_files.h"
#include "controller/server.h"

namespace paceline {

// Whether it may serve where it was told to: in plain text on the loopback only, and loudly; else
// with a usable certificate of a controller.
ServerFailure CheckIdentity(const ServerOptions& options);

// Its certificate's files. None: plain text, or credentials of a test.
std::optional<TlsFiles> IdentityFiles(const ServerOptions& options);

// After CheckIdentity.
std::shared_ptr<grpc::ServerCredentials> GrpcCredentials(const ServerOptions& options);

// The same of HTTP. Nothing: plain text. It asks CheckReader (common/identity/principal.h).
std::optional<HttpTls> HttpTlsOf(const ServerOptions& options);

}  // namespace paceline

#endif  // CONTROLLER_OWN_IDENTITY_H_
