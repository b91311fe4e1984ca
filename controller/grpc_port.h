// The port at which a controller speaks gRPC, as leader or as standby, and what clients may do
// there (docs/limits.md).
#ifndef CONTROLLER_GRPC_PORT_H_
#define CONTROLLER_GRPC_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class Server;
class ServerBuilder;
class ServerCredentials;
}  // namespace grpc

namespace paceline {

// Time for a connection to complete its handshakes, TLS included.
inline constexpr absl::Duration kHandshakePatience = absl::Seconds(10);

struct GrpcPort {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // HOST:PORT, with the real port.
};

// Limits the size of calls, their number, and the memory and threads that all of them take; closes
// connections that are half-open, slow or silent. From the first call on, gRPC's log lines in this
// process go to our log, at a limited rate, since a client's mistake causes one.
void LimitClients(grpc::ServerBuilder& builder, absl::Duration handshake_patience);

// Serves the builder's services at `listen` (HOST:PORT; port 0: any free port). FailedPrecondition
// if it cannot.
absl::StatusOr<GrpcPort> OpenGrpcPort(grpc::ServerBuilder& builder, const std::string& listen,
                                      const std::shared_ptr<grpc::ServerCredentials>& credentials);

}  // namespace paceline

#endif  // CONTROLLER_GRPC_PORT_H_
