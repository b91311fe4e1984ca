#include "common/http_connections.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace paceline {
namespace {

// In the kernel, of what a client has not taken yet. The kernel doubles it.
constexpr int kSendBuffer = 128 << 10;

// Whether the socket is ready within kHttpPatience; also when it has come to its end.
bool WaitFor(int socket, short events) {
  pollfd waiting{socket, events, 0};
  while (true) {
    const int ready = poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(kHttpPatience)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// One accepted socket; it does not own it.
class SocketStream : public httplib::Stream {
 public:
  explicit SocketStream(int socket) : socket_(socket) {}

  bool is_readable() const override { return begin_ < end_ || WaitFor(socket_, POLLIN); }
  bool is_writable() const override { return WaitFor(socket_, POLLOUT); }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      if (!is_readable()) return -1;
      const ssize_t got = recv(socket_, buffer_, sizeof buffer_, 0);
      if (got <= 0) return got;
      begin_ = 0;
      end_ = static_cast<size_t>(got);
    }
    const size_t taken = std::min(size, end_ - begin_);
    std::copy(buffer_ + begin_, buffer_ + begin_ + taken, to);
    begin_ += taken;
    return static_cast<ssize_t>(taken);
  }

  // All of it, unless the client takes nothing for kHttpPatience.
  ssize_t write(const char* data, size_t size) override {
    for (size_t sent = 0; sent < size;) {
      if (!is_writable()) return -1;
      const ssize_t now = send(socket_, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now < 0 && errno != EAGAIN && errno != EINTR) return -1;
      if (now > 0) sent += static_cast<size_t>(now);
    }
    return static_cast<ssize_t>(size);
  }

  // Nobody asks.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  const int socket_;
  char buffer_[4096];
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace

bool HttpConnections::process_and_close_socket(int socket) {
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  {
    absl::MutexLock lock(&mutex_);
    connections_[std::this_thread::get_id()].socket = socket;
  }
  SocketStream stream(socket);
  bool answered = true;
  for (size_t left = keep_alive_max_count_; left > 0 && answered; --left) {
    if (!SetAnswering(false) || !stream.is_readable() || !SetAnswering(true)) break;
    bool closed = false;
    answered = process_request(stream, left == 1, closed, nullptr) && !closed;
  }
  {
    absl::MutexLock lock(&mutex_);
    connections_.erase(std::this_thread::get_id());
  }
  shutdown(socket, SHUT_RDWR);
  close(socket);
  return answered;
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
    connections_[std::this_thread::get_id()].stream = stream;
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
        shutdown(connection.socket, SHUT_RDWR);
      }
    }
  }
  for (const std::shared_ptr<HttpStream>& stream : streams) stream->Cancel();
}

}  // namespace paceline
