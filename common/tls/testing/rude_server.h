// A misbehaving server, for tests of clients.
#ifndef COMMON_TLS_TESTING_RUDE_SERVER_H_
#define COMMON_TLS_TESTING_RUDE_SERVER_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

namespace paceline {

// Answers each connection with `answer`, after reading some bytes from the client, and closes it;
// with `reset`, the client sees a reset.
class RudeServer {
 public:
  explicit RudeServer(std::string answer, bool reset = false) : answer_(std::move(answer)) {
    listening_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listening_, 8), 0);
    getsockname(listening_, reinterpret_cast<sockaddr*>(&at), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this, reset] {
      while (true) {
        const int fd = accept(listening_, nullptr, nullptr);
        if (fd < 0) return;
        char byte = 0;
        recv(fd, &byte, 1, 0);
        send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL);
        // Closing with unread data causes a reset; so otherwise read the client's hello.
        char hello[4096];
        if (!reset) recv(fd, hello, sizeof hello, 0);
        close(fd);
      }
    });
  }
  ~RudeServer() {
    shutdown(listening_, SHUT_RDWR);
    thread_.join();
    close(listening_);
  }
  const std::string& address() const { return address_; }

 private:
  const std::string answer_;
  int listening_ = -1;
  std::string address_;
  std::thread thread_;
};

}  // namespace paceline

#endif  // COMMON_TLS_TESTING_RUDE_SERVER_H_
