// The HTTP side of a daemon: a few GET routes for monitoring, and streams of events for browsers,
// on threads of its own.
//
// Bounded: so many plain requests are answered at once, and so many streams are open; a stream
// holds one chunk and the kernel's buffer. Clients are waited for within HttpLimits: slow ones
// cannot keep a probe of /healthz waiting for long, nor the end of the server.
//
// Over a network it speaks TLS alone, and each client shows a certificate of the cluster; probes of
// /healthz and /readyz need none, as they learn nothing. On the loopback it may be plain text.
//
// Thread-safe after Start.
#ifndef COMMON_HTTP_SERVER_H_
#define COMMON_HTTP_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"
#include "common/tls/tls_files.h"

namespace paceline {

// What there were too many of for one more client.
enum class HttpRefusal { kConnections, kStreams };

// For how long clients are waited for; then they are dropped.
struct HttpLimits {
  // Who neither sends nor takes anything: a stream's reader, or a connection without a request.
  absl::Duration patience = absl::Seconds(5);
  // All waits of one request: to send it, and to take the whole reply. Not of a stream.
  absl::Duration request = absl::Seconds(10);
  // The same while other connections wait for a thread, and when the server ends.
  absl::Duration hurried = absl::Seconds(1);
  // Told of each client that is turned away; on any thread, and must not wait. May be empty.
  std::function<void(HttpRefusal)> refused = {};
};

// Plain connections that are served at once; more wait.
inline constexpr int kHttpThreads = 16;
// So many wait; more are hung up on, since each takes a descriptor that gRPC and the store need
// too.
inline constexpr int kHttpWaiting = 256;
// Streams that are open at once; more are answered 503.
inline constexpr int kHttpStreams = 32;

// With what a server speaks TLS.
struct HttpTls {
  TlsFiles files;  // What lies there later is used for new connections.
  // Whether a client may read, of whom the certificate, which holds, was issued then. Asked with
  // each request, on any thread; not set: each may.
  std::function<absl::Status(const Principal&, absl::Time issued)> check = {};
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::map<std::string, std::string> headers = {};
};

// A response that goes on until its client or the server goes away: "text/event-stream".
class HttpStream {
 public:
  virtual ~HttpStream() = default;

  // Waits until there is something to send, and returns it; empty: that was all. Called by one
  // thread of the server.
  virtual std::string Next() = 0;

  // Has Next return empty, also the one under way. From any thread.
  virtual void Cancel() = 0;
};

class HttpServer {
 public:
  // Path ("/metrics") to what answers it. Called on a thread of the server, several at once.
  using Routes = std::map<std::string, std::function<HttpResponse()>>;
  // The same to what opens a stream. `query`: the parameters in the address, by name.
  using Query = std::map<std::string, std::string>;
  using Streams = std::map<std::string, std::function<std::unique_ptr<HttpStream>(const Query&)>>;

  // Listens on `address` ("host:port", port 0: any). FailedPrecondition when it cannot;
  // InvalidArgument: no address, one that is reached over a network without TLS, or TLS files that
  // cannot be used.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Routes routes, Streams streams = {},
                                                           const HttpLimits& limits = {},
                                                           std::optional<HttpTls> tls = {});

  // Stops listening, ends all streams at once, and waits for the requests under way, whose clients
  // are hurried.
  virtual ~HttpServer() = default;

  // "host:port" with the real port.
  virtual std::string address() const = 0;

  // Ends the streams that are open; their clients may ask again, and are judged anew.
  virtual void EndStreams() = 0;
};

}  // namespace paceline

#endif  // COMMON_HTTP_SERVER_H_
