// The HTTP side of a daemon: a few GET routes for monitoring, on threads of its own.
//
// Thread-safe after Start.
#ifndef COMMON_HTTP_SERVER_H_
#define COMMON_HTTP_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace paceline {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  // Path ("/metrics") to what answers it. Called on a thread of the server, several at once.
  using Routes = std::map<std::string, std::function<HttpResponse()>>;

  // Listens on `address` ("host:port", port 0: any). FailedPrecondition when it cannot.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           Routes routes);

  // Stops listening and waits for the requests under way.
  virtual ~HttpServer() = default;

  // "host:port" with the real port.
  virtual std::string address() const = 0;
};

}  // namespace paceline

#endif  // COMMON_HTTP_SERVER_H_
