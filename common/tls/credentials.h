// Makes gRPC credentials from TLS files.
//
// The files are checked once a second, and new connections use their latest contents without a
// restart. Replacing a certificate with the same key renames a single file. If the key changes,
// too, connections that begin between the two renames fail and are retried.
//
// Uses TLS 1.3, or 1.2 if the peer cannot: this gRPC release has no setting for a minimum version.
#ifndef COMMON_TLS_CREDENTIALS_H_
#define COMMON_TLS_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/tls/tls_files.h"

namespace paceline {

// A client's certificate that is not valid now, or not signed by the authority, ends the
// connection. A client without one is also refused if `require_client_certificate`; otherwise the
// call's handler decides.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const TlsFiles& files,
                                                           bool require_client_certificate);

// For clients: the server must have a serving certificate of the authority, with the name that was
// dialled. Make these once per process: each has a thread that checks the files.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const TlsFiles& files);

}  // namespace paceline

#endif  // COMMON_TLS_CREDENTIALS_H_
