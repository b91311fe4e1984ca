// cpp-httplib's server with our own connections: waiting connections and streams can be ended at
// once instead of after the library's timeouts, slow clients lose their thread, and each
// connection's kernel buffer is bounded.
//
// Thread-safe after the start of listening.
#ifndef COMMON_HTTP_CONNECTIONS_H_
#define COMMON_HTTP_CONNECTIONS_H_

#include <httplib.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/http_server.h"
#include "common/tls/server_context.h"

namespace paceline {

class HttpConnections : public httplib::Server {
 public:
  // Serves `threads` connections at once; others wait.
  HttpConnections(size_t threads, const HttpLimits& limits, std::optional<HttpTls> tls);

  // InvalidArgument when the TLS files cannot be used.
  absl::Status CheckTls();

  // Call from a route: continues this thread's current response with the stream; 503 when too many
  // are open.
  void Stream(std::unique_ptr<HttpStream> stream, httplib::Response& response);

  // Ends all open streams; their clients may ask again.
  void EndStreams() ABSL_LOCKS_EXCLUDED(mutex_);

  // Call after httplib's stop(): ends connections that wait for a request, and all streams. Clients
  // with requests under way are hurried.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Client;
  class Pool;

  // A connection on its thread, which answers its requests in turn.
  struct Connection {
    Client* client = nullptr;              // Lives as long as this.
    bool answering = false;                // Otherwise it waits for a request.
    std::shared_ptr<HttpStream> stream{};  // Null: none is open.
    std::string certificate{};             // The client's, PEM; empty: none shown.
  };

  bool process_and_close_socket(int socket) override;
  // Answers requests in turn, until the client or the server ends the connection.
  void Serve(Client& client);
  // Why a client with this certificate (PEM; empty: none) may not read now; empty: it may.
  std::string RefusalOf(const std::string& certificate) const;
  // The same for this thread's TLS client. Checked at each request, since a connection lasts for
  // several.
  std::string Refusal() ABSL_LOCKS_EXCLUDED(mutex_);
  // False when the server is ending.
  bool SetAnswering(bool answering) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts a connection that waits for a thread. False when too many wait.
  bool Queue() ABSL_LOCKS_EXCLUDED(mutex_);
  void Refused(HttpRefusal refusal) const;
  // Whether connections wait for a thread or the server is ending.
  bool Hurried() ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t threads_;
  const HttpLimits limits_;
  const std::optional<HttpTls> tls_;
  std::unique_ptr<ServerContext> context_;  // Null: plain text.
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;  // Connections without a thread.
  std::map<std::thread::id, Connection> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // COMMON_HTTP_CONNECTIONS_H_
