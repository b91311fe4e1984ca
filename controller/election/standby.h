// What a controller serves while another one leads, at the addresses where it would serve as
// leader: it answers every call with NOT_LEADER (common/not_leader.h), /healthz with 200, /readyz
// with 503 and the leader, and /metrics with the metrics of the process and its certificate.
//
// Thread-safe.
#ifndef CONTROLLER_ELECTION_STANDBY_H_
#define CONTROLLER_ELECTION_STANDBY_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/http_server.h"
#include "common/tls/tls_files.h"
#include "controller/grpc_port.h"
#include "controller/metrics/metrics.h"

namespace paceline {

class Standby : private grpc::CallbackGenericService {
 public:
  // Serves at `listen` and `http` (HOST:PORT; port 0: any free port). `identity`: the files of the
  // certificate, if any. FailedPrecondition if it cannot.
  static absl::StatusOr<std::unique_ptr<Standby>> Start(
      const std::string& listen, const std::string& http,
      const std::shared_ptr<grpc::ServerCredentials>& credentials, std::optional<HttpTls> http_tls,
      std::optional<TlsFiles> identity = std::nullopt,
      absl::Duration handshake_patience = kHandshakePatience);
  // Frees the addresses.
  ~Standby() override;

  // Sets the leader that it names from now on; empty: nobody.
  void SetLeader(const std::string& leader) ABSL_LOCKS_EXCLUDED(mutex_);

  // Addresses with the real ports.
  const std::string& grpc_address() const { return grpc_address_; }
  std::string http_address() const { return http_->address(); }

 private:
  explicit Standby(std::optional<TlsFiles> identity);
  absl::Status Listen(const std::string& listen, const std::string& http,
                      const std::shared_ptr<grpc::ServerCredentials>& credentials,
                      std::optional<HttpTls> http_tls, absl::Duration handshake_patience);
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  std::string Leader() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::optional<TlsFiles> identity_;
  mutable absl::Mutex mutex_;
  std::string leader_ ABSL_GUARDED_BY(mutex_);

  ControllerMetrics metrics_;
  std::string grpc_address_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace paceline

#endif  // CONTROLLER_ELECTION_STANDBY_H_
