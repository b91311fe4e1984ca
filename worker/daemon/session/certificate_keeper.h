// Sees to the node's certificate while the daemon runs: renews it after two thirds of its life, and
// says why a connection with the controller does not come about.
//
// A renewal keeps the key, so that one file is replaced; gRPC's credentials and the HTTP server
// find the new certificate by themselves. The first renewal is soon after the start, and the later
// ones follow the time that has passed, so that a machine with a wrong clock renews in time too.
//
// Runs on the loop; the network on threads of its own.
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

// When to renew a certificate of that life: after the start (`fraction` in 0..1 spreads a cluster's
// nodes), after a renewal, and after one that has failed.
absl::Duration FirstRenewal(absl::Duration life, double fraction);
absl::Duration NextRenewal(absl::Duration life);
absl::Duration RenewalRetry(absl::Duration life);

// Has the controller sign a certificate for the key in the files, and replaces it there. Waits for
// the network. Unavailable: it is away, silent or no leader; perhaps another one signs.
absl::Status RenewCertificate(const std::string& controller, const TlsFiles& files,
                              const std::shared_ptr<grpc::ChannelCredentials>& credentials);

class CertificateKeeper {
 public:
  struct Options {
    std::string controllers;        // HOST:PORT, or several with commas between them.
    std::optional<TlsFiles> files;  // None: plain text, and nothing is renewed.
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
    uint64_t seed = 0;
  };

  // `loop` outlives this object.
  CertificateKeeper(EventLoop& loop, Options options);

  void Start();

  // Tells in the log why the controller cannot be reached, if there is more to say than that it
  // cannot.
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
