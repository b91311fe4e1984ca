// The controller as a whole: owns all parts and wires them; decides nothing.
//
// Threads: the event loop (Run's caller), the store's, gRPC's, the HTTP server's.
#ifndef CONTROLLER_SERVER_H_
#define CONTROLLER_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/tls/certificate_authority.h"
#include "controller/api/admission/call_limit_options.h"
#include "controller/core/cluster/cluster.h"
#include "controller/grpc_port.h"
#include "controller/store/state_store.h"

namespace grpc {
class ServerCredentials;
}

namespace paceline {

struct ServerOptions {
  std::string listen;        // gRPC, HOST:PORT, port 0: any.
  std::string http;          // HTTP, as above.
  std::string state_dir;     // Made if missing.
  std::string address_file;  // common/address_file.h.
  std::string audit_log;     // controller/api/audit/audit.h. Empty: audit.jsonl in state_dir.
  Cluster::Options cluster = {};
  std::string tls_dir = {};  // Of the controller's TlsFiles; unless `plaintext`.
  std::string ca_dir = {};   // Of the authority; empty: nobody gets certificates here.
  // gRPC without TLS, on the loopback: whoever is on this machine is believed all that they say.
  bool plaintext = false;
  absl::Duration worker_certificate_life = kWorkerLife;
  // Instead of those of tls_dir, for tests.
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;
  std::string user_tokens = {};  // controller/api/admission/user_tokens.h. Empty: there are none.
  CallLimitOptions limits = {};
  absl::Duration handshake_patience = kHandshakePatience;
};

// With what a controller serves that was elected among several (controller/election/leadership.h).
// Without a store: SQLite in the state directory, which it locks.
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
  class Parts;

  const std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // CONTROLLER_SERVER_H_
