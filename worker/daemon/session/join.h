// Gets a node its first certificate, by a token that can be used once.
//
// Afterwards the file `joined` beside the certificate holds the token's digest. A different token
// makes the node join again, which is how it returns after its certificate was revoked or has
// expired. The token's file may stay, and may be read-only.
#ifndef WORKER_DAEMON_SESSION_JOIN_H_
#define WORKER_DAEMON_SESSION_JOIN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct JoinOptions {
  std::string controllers;  // HOST:PORT, or several separated by commas.
  std::string node;
  std::string token_file;
  std::string ca;       // Certificate of the authority that the controller's must be signed by.
  std::string tls_dir;  // Directory of the node's TlsFiles.
};

// Whether the token in the file has not been used yet. NotFound or PermissionDenied: the file
// cannot be read; InvalidArgument: it holds no token.
absl::StatusOr<bool> MustJoin(const JoinOptions& options);

// Tries each controller once until one answers; blocks on the network. Unavailable: try again. The
// first attempt creates the private key, which stays on this machine. Repeating an attempt is safe
// when its answer was lost.
absl::Status Join(const JoinOptions& options);

}  // namespace paceline

#endif  // WORKER_DAEMON_SESSION_JOIN_H_
