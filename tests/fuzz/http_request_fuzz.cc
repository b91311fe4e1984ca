// Whatever a client sends to the HTTP port, the connection ends, with answers of HTTP or without,
// and the next client is served.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/http_server.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

constexpr size_t kMaxReply = 1 << 20;

// Sends the query, and ends.
class ShortStream : public HttpStream {
 public:
  explicit ShortStream(std::string text) : text_(std::move(text)) {}
  std::string Next() override { return std::exchange(text_, ""); }
  void Cancel() override {}

 private:
  std::string text_;
};

const HttpServer& Serving() {
  static const auto* const server = [] {
    const HttpServer::Routes routes = {{"/metrics", [](const HttpServer::Query&) {
                                          return HttpResponse{200, "text/plain", "x 1\n"};
                                        }}};
    const HttpServer::Streams streams = {{"/events", [](const HttpServer::Query& query) {
                                            std::string text = "data:";
                                            for (const auto& [name, value] : query)
                                              text += name.substr(0, 64) + value.substr(0, 64);
                                            return std::make_unique<ShortStream>(text);
                                          }}};
    auto started = HttpServer::Start("127.0.0.1:0", routes, streams);
    PACELINE_EXPECT(started.ok());
    // One server for all inputs; it never ends.
    return new std::unique_ptr<HttpServer>(*std::move(started));
  }();
  return **server;
}

// The fuzzer's clock may interrupt it, and for a moment all ports may be in TIME_WAIT.
int Connect(const sockaddr_in& to) {
  for (;;) {
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return client;
    const bool passes = errno == EINTR || errno == EADDRNOTAVAIL;
    if (!passes) std::perror("connect");
    PACELINE_EXPECT(passes);
    ::close(client);
    absl::SleepFor(absl::Milliseconds(10));
  }
}

// All that the server answers, up to the end of the connection. The fuzzer's own time limit finds
// a connection that hangs.
std::string Ask(absl::string_view request) {
  const std::string address = Serving().address();
  int port = 0;
  PACELINE_EXPECT(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  const int client = Connect(to);
  // The server may hang up before it has taken all.
  ::send(client, request.data(), request.size(), MSG_NOSIGNAL);
  ::shutdown(client, SHUT_WR);
  std::string reply;
  char bytes[4096];
  ssize_t got = 0;
  // The fuzzer's clock may interrupt.
  const auto goes_on = [&] { return got > 0 || (got < 0 && errno == EINTR); };
  do {
    got = ::recv(client, bytes, sizeof bytes, 0);
    if (got > 0) reply.append(bytes, static_cast<size_t>(got));
  } while (goes_on() && reply.size() < kMaxReply);
  PACELINE_EXPECT(got == 0 || errno == ECONNRESET);
  ::close(client);
  return reply;
}

void Send(absl::string_view request) {
  const std::string reply = Ask(request);
  PACELINE_EXPECT(reply.empty() || absl::StartsWith(reply, "HTTP/1."));
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Send({reinterpret_cast<const char*>(data), size});
  return 0;
}
