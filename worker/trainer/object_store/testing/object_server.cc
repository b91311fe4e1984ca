#include "worker/trainer/object_store/testing/object_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

constexpr size_t kMostSent = 64 * 1024;  // At a time.

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::abort();
}

ObjectServer::Request Parse(const std::string& head) {
  ObjectServer::Request request;
  const std::vector<std::string> lines = absl::StrSplit(head, "\r\n");
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  if (first.size() > 1) request.path = first[1];
  for (const std::string& line : lines) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    request.headers[absl::AsciiStrToLower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return request;
}

std::string HeaderOf(const ObjectServer::Request& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

}  // namespace

// One of a client; over TLS if there is a context. Owns the descriptor.
class ObjectServer::Connection {
 public:
  Connection(int fd, SSL_CTX* context)
      : fd_(fd), ssl_(context == nullptr ? nullptr : SSL_new(context)) {
    // A client that does not agree is one that sends nothing.
    if (ssl_ != nullptr && (SSL_set_fd(ssl_, fd) != 1 || SSL_accept(ssl_) != 1)) agreed_ = false;
  }
  ~Connection() {
    if (ssl_ != nullptr && agreed_) SSL_shutdown(ssl_);
    SSL_free(ssl_);
    ERR_clear_error();
    ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // A request, with the empty line behind it.
  std::string ReadHead() {
    std::string head;
    char buffer[4096];
    while (head.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = Receive(buffer, sizeof(buffer));
      if (got <= 0) break;
      head.append(buffer, static_cast<size_t>(got));
    }
    return head;
  }

  // Returns how many of the bytes it has sent; at most 0: the connection has ended.
  ssize_t Send(absl::string_view bytes) {
    if (ssl_ == nullptr) return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return agreed_ ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) : 0;
  }

 private:
  ssize_t Receive(char* buffer, size_t bytes) {
    if (ssl_ == nullptr) return ::recv(fd_, buffer, bytes, 0);
    return agreed_ ? SSL_read(ssl_, buffer, static_cast<int>(bytes)) : 0;
  }

  const int fd_;
  SSL* const ssl_;
  bool agreed_ = true;
};

ObjectServer::ObjectServer(std::shared_ptr<SSL_CTX> context) : context_(std::move(context)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, plain, length) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, plain, &length) != 0) {
    Die("ObjectServer");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

ObjectServer::~ObjectServer() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  ::shutdown(listener_, SHUT_RDWR);  // Ends accept.
  thread_.join();
  ::close(listener_);
}

std::string ObjectServer::url() const {
  return absl::StrCat(context_ == nullptr ? "http" : "https", "://127.0.0.1:", port_);
}

void ObjectServer::Put(const std::string& path, std::string bytes) {
  const absl::MutexLock lock(&mutex_);
  objects_[path] = {std::move(bytes), absl::StrCat("\"v", ++versions_, "\"")};
}

void ObjectServer::SetFault(Fault fault) {
  const absl::MutexLock lock(&mutex_);
  fault_ = std::move(fault);
  since_fault_ = 0;
}

std::vector<ObjectServer::Request> ObjectServer::requests() const {
  const absl::MutexLock lock(&mutex_);
  return requests_;
}

size_t ObjectServer::bytes_sent() const {
  const absl::MutexLock lock(&mutex_);
  return bytes_sent_;
}

std::string ObjectServer::Error(const std::string& status, const std::string& body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nConnection: close\r\nContent-Length: ", body.size(),
                      "\r\n\r\n", body);
}

std::string ObjectServer::AnswerTo(const Request& request) const {
  const absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(request.path);
  if (found == objects_.end())
    return Error("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>");
  const auto& [bytes, etag] = found->second;
  const std::string match = HeaderOf(request, "if-match");
  if (!match.empty() && match != etag) return Error("412 Precondition Failed");
  const std::string range = HeaderOf(request, "range");
  const std::vector<std::string> ends =
      absl::StrSplit(absl::StripPrefix(range, "bytes="), absl::MaxSplits('-', 1));
  uint64_t first = 0;
  uint64_t last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) || !absl::SimpleAtoi(ends[1], &last) ||
      first >= bytes.size()) {
    return Error("416 Range Not Satisfiable");
  }
  last = std::min<uint64_t>(last, bytes.size() - 1);
  return absl::StrCat("HTTP/1.1 206 Partial Content\r\nConnection: close\r\nETag: ", etag,
                      "\r\nContent-Range: bytes ", first, "-", last, "/", bytes.size(),
                      "\r\nContent-Length: ", last - first + 1, "\r\n\r\n",
                      bytes.substr(first, last - first + 1));
}

void ObjectServer::Run() {
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    {
      const absl::MutexLock lock(&mutex_);
      if (stopping_) {
        if (connection >= 0) ::close(connection);
        return;
      }
    }
    if (connection < 0) continue;
    Connection accepted(connection, context_.get());
    Serve(accepted);
  }
}

void ObjectServer::Serve(Connection& connection) {
  const Request request = Parse(connection.ReadHead());
  Fault fault;
  int number = 0;
  {
    const absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
    fault = fault_;
    number = since_fault_++;
  }
  std::optional<std::string> wrong;
  if (fault) wrong = fault(request, number);
  const std::string answer = wrong.has_value() ? *wrong : AnswerTo(request);
  absl::string_view rest = answer;
  while (!rest.empty()) {
    const ssize_t sent = connection.Send(rest.substr(0, kMostSent));
    if (sent <= 0) return;
    {
      const absl::MutexLock lock(&mutex_);
      bytes_sent_ += static_cast<size_t>(sent);
    }
    rest.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace paceline
