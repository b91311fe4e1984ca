// One of several controllers over the same etcd: stands by until it is elected, and says then with
// what a Server serves.
//
//   Leadership leadership(options);
//   leadership.Start();                      // Serves as a standby.
//   auto elected = leadership.Wait();        // Blocks.
//   server.Start(*std::move(elected));       // Takes the addresses over.
//
// The standby says that nobody leads until this controller is elected, and never after, while it
// still serves: nodes hold their leases by that (worker/daemon/core/standby_answers.h), and the
// server counts them from when it starts.
//
// It outlives the server. Its end gives the leadership back, so that another one leads at once.
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
    std::string prefix = "/paceline";         // Of all keys.
    std::string advertise;                    // HOST:PORT for clients; empty: that of `listen`.
    absl::Duration lease = absl::Seconds(3);  // Election::Options.
    // Of the standby's ports.
    std::shared_ptr<grpc::ServerCredentials> credentials;
    std::optional<HttpTls> http_tls;
    std::optional<TlsFiles> identity;
    // As of ServerOptions.
    std::string listen;
    std::string http;
    std::string state_dir;
    std::string address_file;
    // This controller must not act any more, and does nothing from when this has returned. Called
    // on a thread of the election.
    std::function<void(const std::string& why)> deposed;
  };

  explicit Leadership(Options options);
  ~Leadership();

  // Takes the state directory, serves as a standby, and takes part in the election.
  ServerFailure Start();

  // Until it is elected. Cancelled after Stop; errors of EtcdStore::Open.
  absl::StatusOr<Elected> Wait();

  // Ends Wait. From any thread.
  void Stop() { loop_.Stop(); }

  // Where it serves, with the real ports.
  const std::string& listen() const { return listen_; }
  const std::string& http() const { return http_; }

 private:
  const Options options_;
  EventLoop loop_;  // While it stands by.
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
