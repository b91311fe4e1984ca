#include "common/http_server.h"

#include <httplib.h>
#include <sys/resource.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/host_port.h"
#include "common/core/loopback.h"
#include "common/core/status_macros.h"
#include "common/http_connections.h"

namespace paceline {
namespace {

constexpr int kNice = 5;  // For setpriority: a third of the processor time of other threads.

HttpServer::Query QueryOf(const httplib::Request& request) {
  return HttpServer::Query(request.params.begin(), request.params.end());
}

class HttplibServer : public HttpServer {
 public:
  HttplibServer(Routes routes, Streams streams, const HttpLimits& limits,
                std::optional<HttpTls> tls)
      : routes_(std::move(routes)),
        streams_(std::move(streams)),
        server_(kHttpThreads + (streams_.empty() ? 0 : kHttpStreams), limits, std::move(tls)) {
    server_.set_keep_alive_max_count(100);
    server_.set_payload_max_length(0);
    // The library's default shares the port with other processes; we must fail instead.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    for (const auto& [path, answer] : routes_) {
      server_.Get(path,
                  [answer = answer](const httplib::Request& request, httplib::Response& response) {
                    const HttpResponse made = answer(QueryOf(request));
                    response.status = made.status;
                    for (const auto& [name, value] : made.headers) response.set_header(name, value);
                    response.set_content(made.body, made.content_type.c_str());
                  });
    }
    for (const auto& [path, open] : streams_) {
      server_.Get(
          path, [this, open = open](const httplib::Request& request, httplib::Response& response) {
            server_.Stream(open(QueryOf(request)), response);
          });
    }
  }

  ~HttplibServer() override {
    server_.stop();
    server_.End();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status CheckTls() { return server_.CheckTls(); }

  bool Listen(const std::string& host, int port) {
    port = port == 0 ? server_.bind_to_any_port(host.c_str())
                     : (server_.bind_to_port(host.c_str(), port) ? port : -1);
    if (port < 0) return false;
    address_ = JoinHostPort(host, port);
    thread_ = std::thread([this] {
      // For this thread and its children: showing things must not slow down deciding them.
      setpriority(PRIO_PROCESS, 0, kNice);
      server_.listen_after_bind();
    });
    // A stop() before the thread accepts connections would be lost.
    while (!server_.is_running()) std::this_thread::yield();
    return true;
  }

  std::string address() const override { return address_; }

  void EndStreams() override { server_.EndStreams(); }

 private:
  const Routes routes_;
  const Streams streams_;
  HttpConnections server_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              Routes routes, Streams streams,
                                                              const HttpLimits& limits,
                                                              std::optional<HttpTls> tls) {
  PACELINE_ASSIGN_OR_RETURN(const HostPort at, ParseHostPort(address));
  if (!tls.has_value() && !IsLoopback(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        address,
        " is reached over a network, where HTTP is served over TLS alone: "
        "give certificates with --tls-dir, or the address 127.0.0.1:PORT or [::1]:PORT"));
  }
  auto server = std::make_unique<HttplibServer>(std::move(routes), std::move(streams), limits,
                                                std::move(tls));
  const absl::Status usable = server->CheckTls();
  if (!usable.ok()) return usable;
  if (!server->Listen(at.host, at.port)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", address, ": the port is in use, or the address is not this host's"));
  }
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace paceline
