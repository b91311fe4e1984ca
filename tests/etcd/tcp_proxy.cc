#include "tests/etcd/tcp_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace paceline {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  return port;
}

void SendAtOnce(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

bool WriteAll(int socket, const char* data, ssize_t size) {
  while (size > 0) {
    const ssize_t written = ::send(socket, data, static_cast<size_t>(size), MSG_NOSIGNAL);
    if (written <= 0) return false;
    data += written;
    size -= written;
  }
  return true;
}

}  // namespace

// Two sockets and their two pumps.
struct TcpProxy::Connection {
  ~Connection() {
    for (const int socket : {client, server}) ::shutdown(socket, SHUT_RDWR);
    for (std::thread& pump : pumps) {
      if (pump.joinable()) pump.join();
    }
    for (const int socket : {client, server}) ::close(socket);
  }

  int client = -1;
  int server = -1;
  std::array<std::thread, 2> pumps;
};

TcpProxy::TcpProxy(const std::string& target)
    : target_port_(PortOf(target)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener_, any, size), 0);
  EXPECT_EQ(::listen(listener_, SOMAXCONN), 0);
  EXPECT_EQ(::getsockname(listener_, any, &size), 0);
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  thread_ = std::thread([this] { Accept(); });
}

TcpProxy::~TcpProxy() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
  connections_.clear();
}

void TcpProxy::Delay(absl::Duration delay) {
  absl::MutexLock lock(&mutex_);
  delay_ = delay;
}

void TcpProxy::Cut() {
  absl::MutexLock lock(&mutex_);
  cut_requests_ = true;
  cut_answers_ = true;
}

void TcpProxy::CutAnswers() {
  absl::MutexLock lock(&mutex_);
  cut_answers_ = true;
}

void TcpProxy::Mend() {
  absl::MutexLock lock(&mutex_);
  cut_requests_ = false;
  cut_answers_ = false;
}

void TcpProxy::Accept() {
  while (true) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    auto connection = std::make_unique<Connection>();
    connection->client = client;
    connection->server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(target_port_);
    const int server = connection->server;
    if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      continue;  // The client's connection ends, as if nobody listened.
    }
    SendAtOnce(client);
    SendAtOnce(server);
    connection->pumps[0] = std::thread([=] { Pump(client, server, Direction::kToServer); });
    connection->pumps[1] = std::thread([=] { Pump(server, client, Direction::kToClient); });
    connections_.push_back(std::move(connection));
  }
}

bool TcpProxy::Pass(Direction direction) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&ending_), delay_);
  const auto open = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ending_ || !(direction == Direction::kToServer ? cut_requests_ : cut_answers_);
  };
  mutex_.Await(absl::Condition(&open));
  return !ending_;
}

void TcpProxy::Pump(int from, int to, Direction direction) {
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t size = ::recv(from, buffer.data(), buffer.size(), 0);
    if (size <= 0 || !Pass(direction) || !WriteAll(to, buffer.data(), size)) break;
  }
  ::shutdown(to, SHUT_WR);
  ::shutdown(from, SHUT_RD);
}

}  // namespace paceline
