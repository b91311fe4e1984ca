// One of several controllers over the same etcd: stands by until it is elected, then returns what a
// Server needs to serve.
//
//   Leadership leadership(options);
//   leadership.Start();                      // Serves as a standby.
//   auto elected = leadership.Wait();        // Blocks.
//   server.Start(*std::move(elected));       // Takes the addresses over.
//
// Until this controller is elected the standby answers that nobody leads; after that never, though
// it still serves. Nodes extend their leases by that answer (worker/daemon/core/standby_answers.h),
// and the server counts the leases from its own start.
//
// Outlives the server. Its destructor gives up the leadership: another leads at once.
//
// Thread-compatible, except for Stop.
#ifndef CONTROLLER_ELECTION_LEADERSHIP_H_
#define CONTROLLER_ELECTION_LEADERSHIP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/http_server.h"
#include "common/tls/tls_files.h"
#include "controller/server.h"
#include "controller/store/etcd_client.h"

namespace paceline {

class Election;
class Standby;
class StateLock;

class Leadership {
 public:
  struct Options {
    EtcdClient::Options etcd;
    std::string prefix = "/paceline";         // Prefix of all keys.
    std::string advertise;                    // HOST:PORT for clients; empty: `listen`.
    absl::Duration lease = absl::Seconds(3);  // Election::Options.
    // Credentials of the standby's port.
    std::shared_ptr<grpc::ServerCredentials> credentials;
    std::optional<HttpTls> http_tls;
    std::optional<TlsFiles> identity;
    // As in ServerOptions.
    std::string listen;
    std::string http;
    std::string state_dir;
    std::string address_file;
    // Called on a thread of the election: this controller must no longer act, and does nothing once
    // this has returned.
    std::function<void(const std::string& why)> deposed;
  };

  explicit Leadership(Options options);
  ~Leadership();

  // Locks the state directory, serves as a standby, and joins the election.
  ServerFailure Start();

  // Blocks until elected. Cancelled after Stop; errors of EtcdStore::Open.
  absl::StatusOr<Elected> Wait();

  // Ends Wait. From any thread.
  void Stop() { loop_.Stop(); }

  // Addresses at which it serves, with the real ports.
  const std::string& listen() const { return listen_; }
  const std::string& http() const { return http_; }

 private:
  const Options options_;
  EventLoop loop_;  // Runs while it stands by.
  std::string listen_;
  std::string http_;
  std::atomic<int64_t> term_{0};  // Set by the election before it stops the loop.
  std::unique_ptr<StateLock> lock_;
  std::unique_ptr<Standby> standby_;
  std::unique_ptr<EtcdClient> store_client_;
  std::unique_ptr<EtcdClient> election_client_;
  std::unique_ptr<Election> election_;
};

}  // namespace paceline

#endif  // CONTROLLER_ELECTION_LEADERSHIP_H_
