// A daemon's HTTP side: a few GET routes for monitoring, and event streams for browsers, on its own
// threads.
//
// Bounded: limits how many plain requests are answered at once and how many streams are open; a
// stream holds one chunk and the kernel's buffer. HttpLimits bounds the wait for clients: slow ones
// cannot delay a probe of /healthz, or the server's end, for long.
//
// Over a network it only speaks TLS, and each client must show a certificate of the cluster, except
// for /healthz and /readyz, which reveal nothing. On the loopback, plain text is allowed.
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

// Why a client was turned away: too many of these.
enum class HttpRefusal { kConnections, kStreams };

// How long to wait for clients before dropping them.
struct HttpLimits {
  // Without any progress: a stream's reader, or a connection without a request.
  absl::Duration patience = absl::Seconds(5);
  // All waits of one request together: to receive it and to send the whole reply. Not for streams.
  absl::Duration request = absl::Seconds(10);
  // Replaces `request` while other connections wait for a thread, and when the server ends.
  absl::Duration hurried = absl::Seconds(1);
  // Called for each client turned away, on any thread; must not block. May be empty.
  std::function<void(HttpRefusal)> refused = {};
};

// Plain connections served at once; others wait.
inline constexpr int kHttpThreads = 16;
// Connections that may wait; more are closed, since each uses a descriptor that gRPC and the store
// also need.
inline constexpr int kHttpWaiting = 256;
// Streams open at once; more get 503.
inline constexpr int kHttpStreams = 32;

// What a server needs for TLS.
struct HttpTls {
  TlsFiles files;  // New connections use the files' latest contents.
  // Whether a client may read. Gets the principal and the time of issue of its valid certificate.
  // Called at each request, on any thread; if unset, all may.
  std::function<absl::Status(const Principal&, absl::Time issued)> check = {};
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::map<std::string, std::string> headers = {};
};

// A response that lasts until its client or the server goes away: "text/event-stream".
class HttpStream {
 public:
  virtual ~HttpStream() = default;

  // Blocks until there is something to send and returns it; empty: the end. Called by one thread of
  // the server.
  virtual std::string Next() = 0;

  // Makes Next return empty, also a call under way. Any thread.
  virtual void Cancel() = 0;
};

class HttpServer {
 public:
  // The address's parameters by name.
  using Query = std::map<std::string, std::string>;
  // Maps a path ("/metrics") to its handler, which several server threads may call at once.
  using Routes = std::map<std::string, std::function<HttpResponse(const Query&)>>;
  // Maps a path to what opens a stream.
  using Streams = std::map<std::string, std::function<std::unique_ptr<HttpStream>(const Query&)>>;

  // Listens on `address` ("host:port", port 0: any). FailedPrecondition when it cannot.
  // InvalidArgument: not an address, a network address without TLS, or unusable TLS files.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Routes routes, Streams streams = {},
                                                           const HttpLimits& limits = {},
                                                           std::optional<HttpTls> tls = {});

  // Stops listening, ends all streams at once, and waits for requests under way, whose clients are
  // hurried.
  virtual ~HttpServer() = default;

  // "host:port" with the actual port.
  virtual std::string address() const = 0;

  // Ends all open streams; their clients may ask again and are checked anew.
  virtual void EndStreams() = 0;
};

}  // namespace paceline

#endif  // COMMON_HTTP_SERVER_H_
