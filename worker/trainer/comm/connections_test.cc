#include "worker/trainer/comm/connections.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "worker/trainer/comm/cpu_platform.h"
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
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

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

// What Gloo sets in the store for this listener.
std::vector<uint8_t> ValueFor(const Listener& listener) {
  const std::string host = "host-7";
  sockaddr_storage address{};
  std::memcpy(&address, &listener.address, sizeof(listener.address));
  const int64_t sequence = -1;
  std::string value;
  const auto append = [&](const void* bytes, size_t size) {
    value.append(static_cast<const char*>(bytes), size);
  };
  const uint64_t host_size = host.size();
  append(&host_size, sizeof(host_size));
  value += host;
  const uint64_t address_size = sizeof(address) + sizeof(sequence);
  append(&address_size, sizeof(address_size));
  append(&address, sizeof(address));
  append(&sequence, sizeof(sequence));
  for (const int64_t pair : {3, 4}) append(&pair, sizeof(pair));
  return {value.begin(), value.end()};
}

TEST(ConnectionsTest, AListenerIsFoundInGloosValueAlone) {
  const Listener listener;
  const std::vector<uint8_t> value = ValueFor(listener);
  const std::optional<Endpoint> found = ListenerIn(value);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->port, ntohs(listener.address.sin_port));
  EXPECT_EQ(found->address,
            (std::array<uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}));

  // Only the numbers at the end may be fewer, or more.
  const size_t without_pairs = value.size() - 2 * sizeof(int64_t);
  for (size_t size = 0; size < value.size(); ++size) {
    const std::vector<uint8_t> cut(value.begin(), value.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(ListenerIn(cut).has_value(), size == without_pairs || size == without_pairs + 8)
        << size;
  }
  for (const uint8_t byte : {0x00, 0x01, 0x7f, 0xff}) {
    EXPECT_FALSE(ListenerIn(std::vector<uint8_t>(170, byte)).has_value()) << int{byte};
  }
  std::vector<uint8_t> of_unix = value;
  of_unix[8 + 6 + 8] = AF_UNIX;
  EXPECT_FALSE(ListenerIn(of_unix).has_value());
}

TEST(ConnectionsTest, AListenerIsFoundInWhatGlooReallySets) {
  const StoreServer store("lo");
  const std::string address = absl::StrCat("127.0.0.1:", store.port());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&address, rank] {
      TrainerConfig config = Ranks(2);
      config.member.rank = rank;
      config.member.generation = 1;
      config.interface = "lo";
      CpuPlatform platform;
      Groups groups(platform, config, c10::Device(c10::kCPU), absl::StrCat(address, "/secret"));
      at::Tensor value = at::zeros({1});
      groups.all().Sum(value);  // Both are connected.
    });
  }
  for (std::thread& rank : ranks) rank.join();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(store.port());
  options.waitWorkers = false;
  c10d::TCPStore client("127.0.0.1", options);
  for (const char* key : {"secret/gen1/all/0/0", "secret/gen1/all/0/1"}) {
    ASSERT_TRUE(client.check({key})) << key << ": Gloo has another form now";
    EXPECT_TRUE(ListenerIn(client.get(key)).has_value()) << key;
  }
}

struct Pair {
  explicit Pair(const Listener& listener) { listener.Connect(&out, &in); }
  ~Pair() {
    close(out);
    close(in);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  int out = -1;
  int in = -1;
};

TEST(ConnectionsTest, OnlyOwnOnesAreShutDown) {
  const Listener store;
  const Listener member;
  const Listener own;
  const Listener foreign;
  OwnConnections connections;
  connections.NoteStore("127.0.0.1", ntohs(store.address.sin_port));
  connections.NoteMember(ValueFor(member));
  connections.NoteOwn(ValueFor(own));
  const Pair to_store(store);
  const Pair to_member(member);
  const Pair to_own(own);
  const Pair to_foreign(foreign);

  EXPECT_EQ(connections.ShutDown(ntohs(store.address.sin_port)), 3);
  EXPECT_FALSE(IsOpen(to_store.out));
  EXPECT_FALSE(IsOpen(to_member.out));
  EXPECT_FALSE(IsOpen(to_own.in));
  EXPECT_TRUE(IsOpen(to_foreign.out));
  EXPECT_TRUE(IsOpen(to_foreign.in));
  const Pair again(own);  // It still listens.
  EXPECT_TRUE(IsOpen(again.out));
}

TEST(ConnectionsTest, WhatIsAcceptedAtTheOwnStoreStays) {
  const Listener store;
  OwnConnections connections;
  connections.NoteOwn(ValueFor(store));  // However it is known.
  const Pair served(store);
  EXPECT_EQ(connections.ShutDown(ntohs(store.address.sin_port)), 0);
  EXPECT_TRUE(IsOpen(served.in));
  EXPECT_EQ(connections.ShutDown(/*store_port=*/0), 1);
  EXPECT_FALSE(IsOpen(served.in));
}

TEST(ConnectionsTest, MembersAreForgottenAtTheSecondShutDown) {
  const Listener member;
  OwnConnections connections;
  connections.NoteMember(ValueFor(member));
  for (const bool known : {true, true, false}) {
    const Pair pair(member);
    EXPECT_EQ(connections.ShutDown(/*store_port=*/0), known ? 1 : 0);
    EXPECT_EQ(IsOpen(pair.out), !known);
  }
}

// Without an abort, so by the connections alone.
TEST(ShutDownTest, FindsTheConnectionsOfRealGroupsAndNoOther) {
  ::signal(SIGPIPE, SIG_IGN);  // As a trainer does.
  const Listener foreign;
  const Pair others(foreign);
  absl::Notification both_connected;
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    at::Tensor value = at::full({1}, 1, at::kFloat);
    groups.all().Sum(value);
    if (config.rank() == 1) both_connected.Notify();
    if (config.rank() == 0) {
      both_connected.WaitForNotification();
      // At least one end of the connection between the ranks, and of those to the store.
      EXPECT_GE(groups.connections().ShutDown(/*store_port=*/0), 2);
    }
    EXPECT_THROW(groups.all().Sum(value), CollectiveError);
  });
  EXPECT_TRUE(IsOpen(others.out));
  EXPECT_TRUE(IsOpen(others.in));
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
      groups.connections().ShutDown(/*store_port=*/0);
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
      groups.connections().ShutDown(/*store_port=*/0);
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
