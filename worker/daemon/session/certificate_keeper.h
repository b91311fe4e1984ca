// Keeps the node's certificate valid while the daemon runs: renews it after two thirds of its life.
// Also explains why a connection to the controller cannot be made.
//
// A renewal keeps the key, so only one file is replaced; gRPC's credentials and the HTTP server
// notice it themselves. The first renewal comes soon after the start and later ones follow elapsed
// time, so that a machine whose clock is wrong also renews in time.
//
// Runs on the loop; network calls run on their own threads.
#ifndef WORKER_DAEMON_SESSION_CERTIFICATE_KEEPER_H_
#define WORKER_DAEMON_SESSION_CERTIFICATE_KEEPER_H_

#include <grpcpp/security/credentials.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/tls/tls_files.h"
#include "worker/daemon/side_threads.h"

namespace paceline {

// Delay before renewing a certificate with this life: after the start (`fraction` in 0..1 spreads a
// cluster's nodes over time), after a renewal, and after a failed renewal.
absl::Duration FirstRenewal(absl::Duration life, double fraction);
absl::Duration NextRenewal(absl::Duration life);
absl::Duration RenewalRetry(absl::Duration life);

// Has the controller sign a new certificate for the key in `files` and stores it there. Blocks on
// the network. Unavailable: the controller is away, unreachable or not the leader; try another.
absl::Status RenewCertificate(const std::string& controller, const TlsFiles& files,
                              const std::shared_ptr<grpc::ChannelCredentials>& credentials);

class CertificateKeeper {
 public:
  struct Options {
    std::string controllers;        // HOST:PORT, or several separated by commas.
    std::optional<TlsFiles> files;  // Empty: plain text, and nothing to renew.
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
    uint64_t seed = 0;
  };

  // `loop` outlives this object.
  CertificateKeeper(EventLoop& loop, Options options);

  void Start();

  // Logs why the controller cannot be reached, if more is known than the mere fact.
  void Explain();

 private:
  void RenewAfter(absl::Duration delay);
  void Renew();
  absl::Duration Life() const;

  EventLoop& loop_;
  const Options options_;
  std::mt19937_64 random_;
  bool explaining_ = false;
  SideThreads threads_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_SESSION_CERTIFICATE_KEEPER_H_
