#include "common/http_connections.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/loopback.h"
#include "common/tls/certificate.h"

namespace paceline {
namespace {

// Kernel's send buffer per client. The kernel doubles it.
constexpr int kSendBuffer = 128 << 10;
// Limit for a whole request: the library bounds its lines, not their number.
constexpr size_t kRequestBytes = 64 << 10;
// Maximum contents of a TLS record (RFC 8446, 5.1).
constexpr size_t kRecordBytes = 16 << 10;
// How often a thread that waits for a client checks whether others wait for the thread.
constexpr absl::Duration kGlance = absl::Milliseconds(200);
// Answer in plain text to a client that speaks plain text.
constexpr char kSpeakTls[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "Connection: close\r\nContent-Length: 38\r\n\r\nthis port speaks TLS: ask by https://\n";
constexpr char kText[] = "text/plain; charset=utf-8";

// Whether this thread is turning a connection away.
thread_local bool refusing = false;

// Why a plain-text request on the loopback is refused; empty: it is not. A page of another site
// whose name now leads to the loopback would make its visitor's browser read our pages.
std::string RefusalOfName(const httplib::Request& request) {
  const size_t names = request.get_header_value_count("Host");
  if (names == 0) return "";  // Not a browser.
  const std::string name = absl::AsciiStrToLower(request.get_header_value("Host"));
  if (names == 1 && IsLoopback(name)) return "";
  return "this is answered under the names localhost, 127.0.0.1 and [::1] alone, and was asked for "
         "under another: open one of them; a proxy has to set the header Host";
}

}  // namespace

// The threads; also counts the connections that wait for one.
class HttpConnections::Pool : public httplib::ThreadPool {
 public:
  explicit Pool(HttpConnections* connections)
      : httplib::ThreadPool(connections->threads_), connections_(connections) {}

  void enqueue(std::function<void()> serve) override {
    if (connections_->Queue()) return httplib::ThreadPool::enqueue(std::move(serve));
    connections_->Refused(HttpRefusal::kConnections);
    // On the accepting thread, this only closes the connection.
    refusing = true;
    serve();
    refusing = false;
  }

 private:
  HttpConnections* const connections_;
};

// An accepted socket, which it does not own. Used by one thread, except socket().
class HttpConnections::Client : public httplib::Stream {
 public:
  // If `ssl` is not null, it must outlive this, and the socket must not block.
  Client(HttpConnections* connections, int socket, SSL* ssl)
      : connections_(connections), socket_(socket), ssl_(ssl) {}

  // Does the TLS handshake. False: it failed, and the client was told why if possible.
  bool Accept() {
    if (Drive([this] { return SSL_accept(ssl_); }) > 0) return true;
    if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_HTTP_REQUEST) {
      send(socket_, kSpeakTls, sizeof kSpeakTls - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      // With unread data, the kernel would discard our answer.
      recv(socket_, buffer_, sizeof buffer_, MSG_DONTWAIT);
    }
    ERR_clear_error();
    return false;
  }

  // Call when a request, or the wait for one, begins.
  void Begin() {
    waited_ = absl::ZeroDuration();
    received_ = 0;
    streaming_ = false;
  }
  // The response is a stream: only the patience limits it.
  void SetStreaming() { streaming_ = true; }
  // Whether it was given up: too slow, too large a request, or gone.
  bool failed() const { return failed_; }

  bool is_readable() const override {
    return begin_ < end_ || (ssl_ != nullptr && SSL_pending(ssl_) > 0) || WaitFor(POLLIN);
  }
  bool is_writable() const override { return WaitFor(POLLOUT); }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      if (received_ >= kRequestBytes) return Fail();
      if (!is_readable()) return -1;
      const ssize_t got = Receive();
      if (got < 0) return Fail();
      begin_ = 0;
      end_ = static_cast<size_t>(got);
      received_ += end_;
    }
    const size_t taken = std::min(size, end_ - begin_);
    std::copy(buffer_ + begin_, buffer_ + begin_ + taken, to);
    begin_ += taken;
    return static_cast<ssize_t>(taken);
  }

  // Writes everything, or fails and writes no more.
  ssize_t write(const char* data, size_t size) override {
    if (ssl_ != nullptr) {
      // One record at a time: the patience starts over with each.
      for (size_t sent = 0; sent < size;) {
        const size_t most = std::min(size - sent, kRecordBytes);
        const int now = Drive([&] { return SSL_write(ssl_, data + sent, static_cast<int>(most)); });
        if (now <= 0) return Fail();
        sent += static_cast<size_t>(now);
      }
      return static_cast<ssize_t>(size);
    }
    for (size_t sent = 0; sent < size;) {
      if (!is_writable()) return -1;
      const ssize_t now = send(socket_, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now < 0 && errno != EAGAIN && errno != EINTR) return Fail();
      if (now > 0) sent += static_cast<size_t>(now);
    }
    return static_cast<ssize_t>(size);
  }

  // Nobody uses this.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  ssize_t Fail() const {
    failed_ = true;
    return -1;
  }

  // Returns 0 when the client has ended. Requires: WaitFor(POLLIN).
  ssize_t Receive() {
    if (ssl_ == nullptr) return recv(socket_, buffer_, sizeof buffer_, 0);
    const int got = Drive([this] { return SSL_read(ssl_, buffer_, sizeof buffer_); });
    if (got > 0) return got;
    return SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
  }

  // Repeats a TLS `step` until it is done or the client is given up; returns its last result.
  template <typename Step>
  int Drive(const Step& step) {
    while (true) {
      ERR_clear_error();
      const int result = step();
      if (result > 0) return result;
      const int wants = SSL_get_error(ssl_, result);
      if (wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE) return result;
      if (!WaitFor(wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT)) return result;
    }
  }

  // How long the client may be waited for from Begin on.
  absl::Duration Limit() const {
    if (streaming_) return absl::InfiniteDuration();
    const HttpLimits& limits = connections_->limits_;
    return connections_->Hurried() ? std::min(limits.request, limits.hurried) : limits.request;
  }

  // Whether the socket is ready in time; also true at its end.
  bool WaitFor(short events) const {
    pollfd waiting{socket_, events, 0};
    absl::Duration here;
    while (!failed_) {
      const absl::Duration left = std::max(
          std::min(connections_->limits_.patience - here, Limit() - waited_), absl::ZeroDuration());
      const absl::Duration turn = absl::Ceil(std::min(left, kGlance), absl::Milliseconds(1));
      const auto start = std::chrono::steady_clock::now();
      const int ready = poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(turn)));
      const absl::Duration passed = absl::FromChrono(std::chrono::steady_clock::now() - start);
      if (ready > 0) {
        waited_ += passed;
        return true;
      }
      if (ready < 0 && errno != EINTR) Fail();
      if (left == absl::ZeroDuration()) Fail();
      here += passed;
      waited_ += passed;
    }
    return false;
  }

  HttpConnections* const connections_;
  const int socket_;
  SSL* const ssl_;
  char buffer_[4096];
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t received_ = 0;
  bool streaming_ = false;
  mutable absl::Duration waited_;
  mutable bool failed_ = false;
};

HttpConnections::HttpConnections(size_t threads, const HttpLimits& limits,
                                 std::optional<HttpTls> tls)
    : threads_(threads),
      limits_(limits),
      tls_(std::move(tls)),
      context_(tls_.has_value() ? std::make_unique<ServerContext>(tls_->files) : nullptr) {
  new_task_queue = [this] { return new Pool(this); };
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const std::string refusal = context_ == nullptr ? RefusalOfName(request) : Refusal();
    if (refusal.empty() || request.path == "/healthz" || request.path == "/readyz") {
      return HandlerResponse::Unhandled;
    }
    response.status = 403;
    response.set_content(refusal + "\n", kText);
    return HandlerResponse::Handled;
  });
}

absl::Status HttpConnections::CheckTls() {
  return context_ == nullptr ? absl::OkStatus() : context_->Get().status();
}

bool HttpConnections::process_and_close_socket(int socket) {
  if (refusing) {
    close(socket);
    return false;
  }
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl(nullptr, SSL_free);
  if (context_ != nullptr) {
    const auto context = context_->Get();
    if (context.ok()) ssl.reset(SSL_new(context->get()));
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    if (ssl != nullptr) SSL_set_fd(ssl.get(), socket);
  }
  Client client(this, socket, ssl.get());
  {
    absl::MutexLock lock(&mutex_);
    --queued_;
    connections_[std::this_thread::get_id()].client = &client;
  }
  client.Begin();
  const bool plain = context_ == nullptr;
  if (plain || (ssl != nullptr && SetAnswering(false) && client.Accept())) {
    if (!plain) {
      std::string certificate = ClientCertificate(ssl.get());
      absl::MutexLock lock(&mutex_);
      connections_[std::this_thread::get_id()].certificate = std::move(certificate);
    }
    Serve(client);
  }
  {
    absl::MutexLock lock(&mutex_);
    connections_.erase(std::this_thread::get_id());
  }
  // Sends the closing message, without waiting for a client that does not take it.
  if (ssl != nullptr && !client.failed()) SSL_shutdown(ssl.get());
  shutdown(socket, SHUT_RDWR);
  close(socket);
  return !client.failed();
}

void HttpConnections::Serve(Client& client) {
  for (size_t left = keep_alive_max_count_; left > 0; --left) {
    client.Begin();
    if (!SetAnswering(false) || !client.is_readable() || !SetAnswering(true)) break;
    client.Begin();
    const bool last = left == 1 || Hurried();
    bool closed = false;
    // The library does not notice each failure.
    const bool answered = process_request(client, last, closed, nullptr) && !client.failed();
    if (!answered || closed || last) break;
  }
}

std::string HttpConnections::RefusalOf(const std::string& certificate) const {
  if (certificate.empty()) {
    return "this is for clients with a certificate of the cluster: `paceline pki issue viewer "
           "NAME` "
           "makes one (docs/security.md)";
  }
  const absl::StatusOr<Certificate> read = ReadCertificate(certificate);
  if (!read.ok()) return absl::StrCat("the client's certificate ", read.status().message());
  if (absl::Now() > read->not_after) {
    return absl::StrCat("the client's certificate has expired on ", TimeText(read->not_after));
  }
  if (!tls_->check) return "";
  const absl::Status allowed = tls_->check(read->principal, read->issued());
  return allowed.ok() ? "" : std::string(allowed.message());
}

std::string HttpConnections::Refusal() {
  std::string certificate;
  {
    absl::MutexLock lock(&mutex_);
    certificate = connections_[std::this_thread::get_id()].certificate;
  }
  return RefusalOf(certificate);
}

bool HttpConnections::Queue() {
  absl::MutexLock lock(&mutex_);
  if (queued_ >= static_cast<size_t>(kHttpWaiting)) return false;
  ++queued_;
  return true;
}

void HttpConnections::Refused(HttpRefusal refusal) const {
  if (limits_.refused) limits_.refused(refusal);
}

bool HttpConnections::Hurried() {
  absl::MutexLock lock(&mutex_);
  return ended_ || queued_ + connections_.size() > threads_;
}

bool HttpConnections::SetAnswering(bool answering) {
  absl::MutexLock lock(&mutex_);
  connections_[std::this_thread::get_id()].answering = answering;
  return !ended_;
}

void HttpConnections::Stream(std::unique_ptr<HttpStream> opened, httplib::Response& response) {
  const std::shared_ptr<HttpStream> stream = std::move(opened);
  {
    absl::MutexLock lock(&mutex_);
    if (ended_ || streams_ >= kHttpStreams) {
      if (!ended_) Refused(HttpRefusal::kStreams);
      response.status = 503;
      response.set_header("Retry-After", "10");
      response.set_content("too many streams are open: close a page that is not needed\n", kText);
      return;
    }
    ++streams_;
    Connection& connection = connections_[std::this_thread::get_id()];
    connection.stream = stream;
    connection.client->SetStreaming();
  }
  response.set_header("Cache-Control", "no-store");
  response.set_chunked_content_provider(
      "text/event-stream",
      [stream](size_t, httplib::DataSink& sink) {
        const std::string chunk = stream->Next();
        if (!chunk.empty()) return sink.write(chunk.data(), chunk.size());
        sink.done();
        return true;
      },
      [this](bool) {
        absl::MutexLock lock(&mutex_);
        --streams_;
        connections_[std::this_thread::get_id()].stream = nullptr;
      });
}

void HttpConnections::EndStreams() {
  std::vector<std::shared_ptr<HttpStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [thread, connection] : connections_) {
      if (connection.stream != nullptr) streams.push_back(connection.stream);
    }
  }
  for (const std::shared_ptr<HttpStream>& stream : streams) stream->Cancel();
}

void HttpConnections::End() {
  std::vector<std::shared_ptr<HttpStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    for (const auto& [thread, connection] : connections_) {
      if (connection.stream != nullptr) streams.push_back(connection.stream);
      if (connection.stream != nullptr || !connection.answering) {
        shutdown(connection.client->socket(), SHUT_RDWR);
      }
    }
  }
  for (const std::shared_ptr<HttpStream>& stream : streams) stream->Cancel();
}

}  // namespace paceline
