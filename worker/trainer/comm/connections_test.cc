#include "worker/trainer/comm/connections.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/testing/rank_threads.h"

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

// Two ranks exchange messages too large for a socket until their connections are ended: some
// messages are then half-way, and Gloo reports those to nobody.
void ExpectEnds(const std::function<void(Group&, int rank, at::Tensor)>& use) {
  ::signal(SIGPIPE, SIG_IGN);  // As a trainer does.
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    absl::Time ended = absl::InfinitePast();
    std::thread ends([&] {
      absl::SleepFor(absl::Milliseconds(500));
      ended = absl::Now();
      ShutDownConnections(/*store_port=*/0);
      groups.Abort();
    });
    const at::Tensor tensor = at::zeros({16 << 20}, at::kFloat);
    const auto exchange = [&] {
      while (true) use(groups.all(), config.rank(), tensor);
    };
    EXPECT_THROW(exchange(), CollectiveError);
    ends.join();
    EXPECT_LT(absl::Now() - ended, absl::Seconds(3));
    EXPECT_THROW(exchange(), CollectiveError) << "it is over";
  });
}

TEST(ShutDownTest, EndsASumThatIsHalfWay) {
  ExpectEnds([](Group& group, int /*rank*/, at::Tensor tensor) { group.Sum(std::move(tensor)); });
}

TEST(ShutDownTest, EndsAMessageThatIsHalfWay) {
  ExpectEnds([](Group& group, int rank, at::Tensor tensor) {
    if (rank == 0) group.Send(std::move(tensor), 1);
    if (rank == 1) group.Receive(std::move(tensor), 0);
  });
}

TEST(ShutDownTest, EndsASumOfFewNumbersThatWaitsForARank) {
  ::signal(SIGPIPE, SIG_IGN);
  RunRanks(Ranks(3), [&](const TrainerConfig& config, Groups& groups) {
    const auto made = groups.MakeOfAll("headers", 1, Groups::Traffic::kOnHost);
    at::Tensor numbers = at::full({3}, 1, at::kDouble);
    made->SumFew(numbers);  // All are connected.
    std::thread ends([&] {
      absl::SleepFor(absl::Milliseconds(200));
      ShutDownConnections(/*store_port=*/0);
      groups.Abort();
    });
    if (config.rank() != 1) {
      EXPECT_THROW(made->SumFew(numbers), CollectiveError);
    }
    ends.join();
  });
}

}  // namespace
}  // namespace paceline
