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

// For a connection to become one of HTTP/2, TLS included.
inline constexpr absl::Duration kHandshakePatience = absl::Seconds(10);

struct GrpcPort {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // HOST:PORT, with the real port.
};

// Bounds how large calls may be, how many they may be, and what all of them together hold, in
// memory and in threads; ends connections that are half open, slow or silent. From the first call
// on, the lines that gRPC writes in this process go to our log, by a rate: what a client does wrong
// makes one.
void LimitClients(grpc::ServerBuilder& builder, absl::Duration handshake_patience);

// Serves the builder's services at `listen`, HOST:PORT, port 0: any. FailedPrecondition when it
// cannot.
absl::StatusOr<GrpcPort> OpenGrpcPort(grpc::ServerBuilder& builder, const std::string& listen,
                                      const std::shared_ptr<grpc::ServerCredentials>& credentials);

}  // namespace paceline

#endif  // CONTROLLER_GRPC_PORT_H_
