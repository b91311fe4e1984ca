// The lower limit for the controller's latencies: gRPC's own ping-pong, with the same messages and
// a server that does nothing but answer, on the same machine at the same time; over TLS if the load
// uses TLS.
#ifndef BENCH_LOAD_ECHO_H_
#define BENCH_LOAD_ECHO_H_

#include <grpcpp/security/credentials.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "bench/load/latencies.h"

namespace paceline {

// Prints {"echo": "host:port"}, and serves until standard input ends. `pki`: as for
// MakeLoadCredentials; the server uses the controller's certificate.
int ServeEcho(const std::string& pki);

// Pings the server ten times a second: a unary call, and a report on a stream that is answered by a
// lease. The public methods are for one thread.
class Pings {
 public:
  Pings(std::string server, std::shared_ptr<grpc::ChannelCredentials> credentials)
      : server_(std::move(server)), credentials_(std::move(credentials)) {}
  // Requires: stopped, or not started.
  ~Pings() = default;
  Pings(const Pings&) = delete;
  Pings& operator=(const Pings&) = delete;

  void Start();
  void Stop();

  Latencies& unary() { return unary_; }
  Latencies& streaming() { return streaming_; }

 private:
  void Run();

  const std::string server_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  Latencies unary_;
  Latencies streaming_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace paceline

#endif  // BENCH_LOAD_ECHO_H_
