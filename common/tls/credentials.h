// gRPC's credentials out of TLS files.
//
// The files are looked at once a second: what lies there later is used for new connections, without
// a restart. A certificate that replaces another one of the same key is a single file, renamed into
// place; where the key changes too, connections that begin between the two renames fail and are
// tried again.
//
// TLS 1.3, or 1.2 with who cannot: this release of gRPC has no setting for the least version.
#ifndef COMMON_TLS_CREDENTIALS_H_
#define COMMON_TLS_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/tls/tls_files.h"

namespace paceline {

// A client's certificate that the authority has not signed, or that does not hold now, ends the
// connection. Without one: with `require_client_certificate` too, else the call goes on, and who
// handles it decides.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const TlsFiles& files,
                                                           bool require_client_certificate);

// For clients: the server must have a certificate of the authority, for serving, in the name that
// was dialled. Make them once per process: each has a thread that looks at the files.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const TlsFiles& files);

}  // namespace paceline

#endif  // COMMON_TLS_CREDENTIALS_H_
