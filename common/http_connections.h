// cpp-httplib's server with connections of our own: it can end those that wait, and streams, at
// once, where the library's wait for their timeouts; slow clients lose their thread; and each one's
// buffer in the kernel is bounded.
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
  // So many connections are served at once; others wait for their turn.
  HttpConnections(size_t threads, const HttpLimits& limits, std::optional<HttpTls> tls);

  // InvalidArgument when the files of TLS cannot be used.
  absl::Status CheckTls();

  // Has the response of the request under way on this thread go on with the stream; 503 when too
  // many are open. Called by a route.
  void Stream(std::unique_ptr<HttpStream> stream, httplib::Response& response);

  // Ends the streams that are open; their clients may ask again.
  void EndStreams() ABSL_LOCKS_EXCLUDED(mutex_);

  // After httplib's stop(): ends what waits for a request, and all streams. Clients of requests
  // under way are hurried.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Client;
  class Pool;

  // A connection of one thread, which answers one request after the other.
  struct Connection {
    Client* client = nullptr;              // Alive as long as this.
    bool answering = false;                // Else it waits for a request.
    std::shared_ptr<HttpStream> stream{};  // Null: none is open.
    std::string certificate{};             // The client's, PEM; empty: it has shown none.
  };

  bool process_and_close_socket(int socket) override;
  // One request after the other, until one of both has enough.
  void Serve(Client& client);
  // Why the client with this certificate (PEM; empty: none) may not read now; empty: it may.
  std::string RefusalOf(const std::string& certificate) const;
  // The same of this thread's client, with TLS: asked with each request, as a connection outlives
  // them.
  std::string Refusal() ABSL_LOCKS_EXCLUDED(mutex_);
  // False: the server ends.
  bool SetAnswering(bool answering) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts a connection that waits for a thread. False: too many do.
  bool Queue() ABSL_LOCKS_EXCLUDED(mutex_);
  void Refused(HttpRefusal refusal) const;
  // Connections wait for a thread, or the server ends.
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
