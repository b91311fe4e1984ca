// Explains why a connection to a controller fails; gRPC only says "failed to connect".
//
// Thread-safe; blocks on the network.
#ifndef COMMON_TLS_HANDSHAKE_PROBE_H_
#define COMMON_TLS_HANDSHAKE_PROBE_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace paceline {

// Connects to `address` (HOST:PORT) like gRPC, with the files or in plain text, and gives up after
// `limit`. Returns "" when nobody listens, nothing is wrong, or nothing is known: only an alert, a
// certificate, or bytes that are not TLS explain anything, but not a server that dies, hangs or
// hangs up. `now`: for the certificates' validity.
std::string ExplainConnection(const std::string& address, const std::optional<TlsFiles>& files,
                              absl::Time now, absl::Duration limit = absl::Seconds(2));

}  // namespace paceline

#endif  // COMMON_TLS_HANDSHAKE_PROBE_H_
