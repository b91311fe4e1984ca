// The controller as a whole: owns all parts and wires them; decides nothing.
//
// Threads: the event loop (Run's caller), the store's, gRPC's, the HTTP server's.
#ifndef CONTROLLER_SERVER_H_
#define CONTROLLER_SERVER_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/http_server.h"
#include "common/identity/principal.h"
#include "common/state_lock/state_lock.h"
#include "common/tls/certificate_authority.h"
#include "controller/control_loop.h"
#include "controller/grpc_port.h"
#include "controller/metrics.h"
#include "controller/page/page.h"
#include "controller/rpc/access.h"
#include "controller/rpc/admin_service.h"
#include "controller/rpc/audit.h"
#include "controller/rpc/automation_service.h"
#include "controller/rpc/call_limits.h"
#include "controller/rpc/checkpoint_service.h"
#include "controller/rpc/history_service.h"
#include "controller/rpc/identity_service.h"
#include "controller/rpc/job_service.h"
#include "controller/rpc/lists.h"
#include "controller/rpc/node_service.h"
#include "controller/rpc/sender.h"
#include "controller/rpc/telemetry_service.h"
#include "controller/rpc/worker_sessions.h"
#include "controller/store/state_store.h"

namespace paceline {

struct ServerOptions {
  std::string listen;        // gRPC, HOST:PORT, port 0: any.
  std::string http;          // HTTP, as above.
  std::string state_dir;     // Made if missing.
  std::string address_file;  // common/address_file.h.
  std::string audit_log;     // controller/rpc/audit.h. Empty: audit.jsonl in state_dir.
  Cluster::Options cluster = {};
  std::string tls_dir = {};  // Of the controller's TlsFiles; unless `plaintext`.
  std::string ca_dir = {};   // Of the authority; empty: nobody gets certificates here.
  // gRPC without TLS, on the loopback: whoever is on this machine is believed all that they say.
  bool plaintext = false;
  absl::Duration worker_certificate_life = kWorkerLife;
  // Instead of those of tls_dir, for tests.
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;
  std::string user_tokens = {};  // controller/rpc/user_tokens.h. Empty: there are none.
  CallLimitOptions limits = {};
  absl::Duration handshake_patience = kHandshakePatience;
};

// With what a controller serves that was elected among several (controller/leadership.h). Without
// a store: SQLite in the state directory, which it locks.
struct Elected {
  std::unique_ptr<StateStore> store;
  int64_t term = 0;  // 0: how often a controller has opened the store.
  std::function<bool()> may_act = [] { return true; };
  // Called when all is ready to serve: frees the addresses.
  std::function<void()> make_way = [] {};
};

// An error at the start or while running, and the exit code that tells it apart.
struct ServerFailure {
  absl::Status status;
  int exit_code = 0;
};

// Of a state that cannot be opened or written: common/exit_codes.h.
ServerFailure StateFailure(const absl::Status& status);

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();

  // Opens the state and begins to serve. On failure nothing was overwritten, and calls that came
  // meanwhile have been ended.
  ServerFailure Start(Elected elected = {});

  // Serves until Shutdown, or until the state cannot be stored any more.
  ServerFailure Run();

  // Ends Run: streams are closed, requests under way answered. From any thread, once.
  void Shutdown();

 private:
  ServerFailure OpenAuthority();
  ServerFailure OpenState(Elected& elected);
  // Checks the table of roles, and makes access_ unless `plaintext`.
  ServerFailure OpenAccess();
  // Serves both ports and tells where. On failure neither is served any more.
  ServerFailure Serve();
  ServerFailure ListenHttp();
  ServerFailure ListenGrpc();
  // From any thread.
  Principal FindCaller(const grpc::ServerContextBase& context) const;
  std::optional<HttpTls> HttpSecurity();
  IdentityService::Options IdentityOptions();
  // Ends what clients watch and read; they may open it again.
  void CloseStreams(const char* why);
  // Tells in the log, again and again, when the certificate comes to its end.
  void WatchCertificate();
  // Of the state store's files. From any thread.
  int64_t StateBytes() const;
  void UpdateDiscovery();
  // Once after a burst of changes. On the loop.
  void UpdateDiscoverySoon();
  HttpServer::Routes Routes();
  HttpServer::Streams Streams();

  const ServerOptions options_;
  EventLoop loop_;
  Sender sender_;
  ControllerMetrics metrics_;
  CallLimits limits_;
  Lists lists_{&loop_, &sender_, &limits_};
  std::atomic<bool> ready_{false};
  ServerFailure failure_;  // On the loop; so below.
  bool discovery_is_old_ = false;

  absl::Mutex mutex_;
  std::string discovery_ ABSL_GUARDED_BY(mutex_) = "[]";  // Body of /sd.

  // In the order of construction in Start.
  std::unique_ptr<StateLock> lock_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<ControlLoop> control_;
  std::unique_ptr<WorkerSessions> workers_;
  std::unique_ptr<JobService> jobs_;
  std::unique_ptr<NodeService> nodes_;
  std::unique_ptr<AutomationService> automation_;
  std::unique_ptr<CheckpointService> checkpoints_;
  std::unique_ptr<AdminService> admin_;
  std::optional<CertificateAuthority> authority_;
  std::optional<Identities> restored_;  // Until the service has them.
  std::unique_ptr<IdentityService> identities_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Access> access_;  // Null: plain text.
  std::unique_ptr<TelemetryService> telemetry_;
  std::unique_ptr<Page> page_;
  std::unique_ptr<HistoryService> histories_;
  std::unique_ptr<HttpServer> http_;
  std::string grpc_address_;
  std::unique_ptr<grpc::Server> grpc_;
  std::thread shutdown_;  // Waits for gRPC's requests under way.
};

}  // namespace paceline

#endif  // CONTROLLER_SERVER_H_
