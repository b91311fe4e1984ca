// The controller as a whole: owns and wires all parts; makes no decisions.
//
// Threads: the event loop (which runs on Run's caller), and those of the store, gRPC and HTTP.
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
  std::string tls_dir = {};  // Folder of the controller's TlsFiles; unused with `plaintext`.
  std::string ca_dir = {};   // Folder of the authority; empty: it issues no certificates.
  // Serves gRPC without TLS, on loopback: whatever callers on this machine claim is believed.
  bool plaintext = false;
  absl::Duration worker_certificate_life = kWorkerLife;
  // Replaces the credentials of tls_dir, for tests.
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;
  std::string user_tokens = {};  // See controller/api/admission/user_tokens.h. Empty: none.
  CallLimitOptions limits = {};
  absl::Duration handshake_patience = kHandshakePatience;
};

// What an elected controller serves with (controller/election/leadership.h). Without a store:
// SQLite in the state directory, which it locks.
struct Elected {
  std::unique_ptr<StateStore> store;
  int64_t term = 0;  // 0: count how often a controller has opened the store instead.
  std::function<bool()> may_act = [] { return true; };
  // Called when all is ready to serve, to free the addresses.
  std::function<void()> make_way = [] {};
};

// An error at the start or while running, with the exit code that identifies it.
struct ServerFailure {
  absl::Status status;
  int exit_code = 0;
};

// Failure for a state that cannot be opened or written; see common/exit_codes.h.
ServerFailure StateFailure(const absl::Status& status);

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();

  // Opens the state and begins to serve. On failure nothing was overwritten, and calls that came in
  // meanwhile have been ended.
  ServerFailure Start(Elected elected = {});

  // Serves until Shutdown, or until the state can no longer be stored.
  ServerFailure Run();

  // Ends Run: closes streams and answers requests under way. From any thread, once.
  void Shutdown();

 private:
  class Parts;

  const std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // CONTROLLER_SERVER_H_
