#include "common/http_connections.h"

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

namespace paceline {
namespace {

// In the kernel, of what a client has not taken yet. The kernel doubles it.
constexpr int kSendBuffer = 128 << 10;
// Of a request: the library bounds its lines, not their number.
constexpr size_t kRequestBytes = 64 << 10;
// Who waits for a client looks so often whether others wait for the thread.
constexpr absl::Duration kGlance = absl::Milliseconds(200);

// Whether this thread serves a connection that nobody has time for.
thread_local bool refusing = false;

}  // namespace

// Threads; counts the connections that wait for one.
class HttpConnections::Pool : public httplib::ThreadPool {
 public:
  explicit Pool(HttpConnections* connections)
      : httplib::ThreadPool(connections->threads_), connections_(connections) {}

  void enqueue(std::function<void()> serve) override {
    if (connections_->Queue()) return httplib::ThreadPool::enqueue(std::move(serve));
    // Here, on the thread that accepts, it only closes the connection.
    refusing = true;
    serve();
    refusing = false;
  }

 private:
  HttpConnections* const connections_;
};

// One accepted socket, which it does not own. For one thread, but for socket().
class HttpConnections::Client : public httplib::Stream {
 public:
  Client(HttpConnections* connections, int socket) : connections_(connections), socket_(socket) {}

  // A request begins, or the wait for one.
  void Begin() {
    waited_ = absl::ZeroDuration();
    received_ = 0;
    streaming_ = false;
  }
  // The reply lasts: only the patience counts.
  void SetStreaming() { streaming_ = true; }
  // It has been given up: it was too slow, asked too much, or is gone.
  bool failed() const { return failed_; }

  bool is_readable() const override { return begin_ < end_ || WaitFor(POLLIN); }
  bool is_writable() const override { return WaitFor(POLLOUT); }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      if (received_ >= kRequestBytes) return Fail();
      if (!is_readable()) return -1;
      const ssize_t got = recv(socket_, buffer_, sizeof buffer_, 0);
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

  // All of it, or nothing more.
  ssize_t write(const char* data, size_t size) override {
    for (size_t sent = 0; sent < size;) {
      if (!is_writable()) return -1;
      const ssize_t now = send(socket_, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now < 0 && errno != EAGAIN && errno != EINTR) return Fail();
      if (now > 0) sent += static_cast<size_t>(now);
    }
    return static_cast<ssize_t>(size);
  }

  // Nobody asks.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  ssize_t Fail() const {
    failed_ = true;
    return -1;
  }

  // For how long it may be waited for from Begin on.
  absl::Duration Limit() const {
    if (streaming_) return absl::InfiniteDuration();
    const HttpLimits& limits = connections_->limits_;
    return connections_->Hurried() ? std::min(limits.request, limits.hurried) : limits.request;
  }

  // Whether the socket is ready in time; also when it has come to its end.
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
  char buffer_[4096];
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t received_ = 0;
  bool streaming_ = false;
  mutable absl::Duration waited_;
  mutable bool failed_ = false;
};

HttpConnections::HttpConnections(size_t threads, const HttpLimits& limits)
    : threads_(threads), limits_(limits) {
  new_task_queue = [this] { return new Pool(this); };
}

bool HttpConnections::process_and_close_socket(int socket) {
  if (refusing) {
    close(socket);
    return false;
  }
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  Client client(this, socket);
  {
    absl::MutexLock lock(&mutex_);
    --queued_;
    connections_[std::this_thread::get_id()].client = &client;
  }
  for (size_t left = keep_alive_max_count_; left > 0; --left) {
    client.Begin();
    if (!SetAnswering(false) || !client.is_readable() || !SetAnswering(true)) break;
    client.Begin();
    const bool last = left == 1 || Hurried();
    bool closed = false;
    // The library does not see each failure.
    const bool answered = process_request(client, last, closed, nullptr) && !client.failed();
    if (!answered || closed || last) break;
  }
  {
    absl::MutexLock lock(&mutex_);
    connections_.erase(std::this_thread::get_id());
  }
  shutdown(socket, SHUT_RDWR);
  close(socket);
  return !client.failed();
}

bool HttpConnections::Queue() {
  absl::MutexLock lock(&mutex_);
  if (queued_ >= static_cast<size_t>(kHttpWaiting)) return false;
  ++queued_;
  return true;
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
      response.status = 503;
      response.set_header("Retry-After", "10");
      response.set_content("too many streams are open: close a page that is not needed\n",
                           "text/plain; charset=utf-8");
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
