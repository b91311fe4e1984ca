// Says in words why a connection with a controller does not come about, where gRPC has only
// "failed to connect".
//
// Thread-safe; waits for the network.
#ifndef COMMON_TLS_HANDSHAKE_PROBE_H_
#define COMMON_TLS_HANDSHAKE_PROBE_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace paceline {

// Connects to `address` (HOST:PORT) as gRPC would, with the files or as plain text, and gives up
// after `limit`. Empty: nobody listens there, nothing is wrong, or nothing was said: only an alert,
// a certificate, or bytes that are no TLS explain anything; a server that dies, stands still or
// ends the connection does not. `now`: for what the certificates say.
std::string ExplainConnection(const std::string& address, const std::optional<TlsFiles>& files,
                              absl::Time now, absl::Duration limit = absl::Seconds(2));

}  // namespace paceline

#endif  // COMMON_TLS_HANDSHAKE_PROBE_H_
