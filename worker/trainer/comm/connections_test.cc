#include "worker/trainer/comm/connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace paceline {
namespace {

struct Listener {
  Listener() : file(socket(AF_INET, SOCK_STREAM, 0)) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(file, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(file, 8), 0);
    EXPECT_EQ(getsockname(file, reinterpret_cast<sockaddr*>(&address), &size), 0);
  }
  ~Listener() { close(file); }

  // Makes a connection and returns both ends.
  void Connect(int* out, int* in) const {
    *out = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(*out, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    *in = accept(file, nullptr, nullptr);
    ASSERT_GE(*in, 0);
  }

  int file;
  sockaddr_in address{};
};

bool IsOpen(int file) {
  char byte = 0;
  return recv(file, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

TEST(ConnectionsTest, AllButThoseOfTheOwnStoreAreShutDown) {
  const Listener store;
  const Listener device;
  int peer = -1;
  int served = -1;
  int sent = -1;
  int received = -1;
  int local[2];
  store.Connect(&peer, &served);
  device.Connect(&sent, &received);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, local), 0);

  // The client end of the store's connection, in this process, is shut down as well.
  EXPECT_EQ(ShutDownConnections(ntohs(store.address.sin_port)), 3);
  EXPECT_FALSE(IsOpen(peer));
  EXPECT_FALSE(IsOpen(sent));
  EXPECT_FALSE(IsOpen(received));
  EXPECT_TRUE(IsOpen(local[0])) << "not a TCP connection";
  device.Connect(&sent, &received);  // The device still listens.
  EXPECT_TRUE(IsOpen(sent));
}

}  // namespace
}  // namespace paceline
