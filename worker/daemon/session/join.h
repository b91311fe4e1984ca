// How a node gets its first certificate: by a token that is used once.
//
// What it did is kept beside the certificate, in the file `joined`: the digest of the token. A
// token that is another one joins again, which is how a node comes back after its certificate was
// revoked or has ended. The token's file may stay, and may be read-only.
#ifndef WORKER_DAEMON_SESSION_JOIN_H_
#define WORKER_DAEMON_SESSION_JOIN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct JoinOptions {
  std::string controllers;  // HOST:PORT, or several with commas between them.
  std::string node;
  std::string token_file;
  std::string ca;       // Certificate of the authority, by which the controller is believed.
  std::string tls_dir;  // Of the node's TlsFiles.
};

// Whether the token in the file is to be used. NotFound, PermissionDenied: it cannot be read;
// InvalidArgument: it holds no token.
absl::StatusOr<bool> MustJoin(const JoinOptions& options);

// One attempt at each controller, until one answers; waits for the network. Unavailable: worth
// another one. The private key is made by the first and stays here; the same attempt may be made
// again when its answer was lost.
absl::Status Join(const JoinOptions& options);

}  // namespace paceline

#endif  // WORKER_DAEMON_SESSION_JOIN_H_
