#include "worker/trainer/comm/group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "worker/trainer/comm/node_sum.h"
#include "worker/trainer/comm/testing/rank_threads.h"

// From FlightRecorder.hpp, which would include all of ATen.
namespace c10d {
std::string dump_fr_trace_json(bool includeCollectives, bool onlyActive);
}

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<float> Values(const at::Tensor& tensor) {
  const auto* const data = tensor.const_data_ptr<float>();
  return {data, data + tensor.numel()};
}

at::Tensor Filled(int count, int value) { return at::full({count}, value, at::kFloat); }

std::vector<int> HalfOf(int rank) {
  return rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
}

// Whether something listens at an address such as "127.0.0.2".
bool Listens(const char* address, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::inet_pton(AF_INET, address, &to.sin_addr), 1);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool listens = ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  ::close(fd);
  return listens;
}

TEST(StoreServerTest, ListensAtItsInterfaceAlone) {
  for (const char* interface : {"lo", "127.0.0.1", "localhost"}) {
    const StoreServer store(interface);
    EXPECT_TRUE(Listens("127.0.0.1", store.port())) << interface;
    EXPECT_FALSE(Listens("127.0.0.2", store.port())) << interface;
  }
  const StoreServer everywhere;
  EXPECT_TRUE(Listens("127.0.0.2", everywhere.port()));
  EXPECT_THROW(StoreServer("192.0.2.1"), std::runtime_error) << "not this machine's";
}

TEST(StoreServerTest, KeysThatAStrangerHasSetAreNobodysWord) {
  const StoreServer store("lo");
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(store.port());
  options.waitWorkers = false;
  c10d::TCPStore stranger("127.0.0.1", options);
  for (const char* key : {"gen1/said/stop", "/gen1/said/stop", "said/stop"}) {
    stranger.set(key, std::vector<uint8_t>{'1'});
  }
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      TrainerConfig config = Ranks(2);
      config.id = {JobId("job-0"), Generation(1), Rank(rank)};
      config.member.rank = rank;
      config.member.generation = 1;
      config.interface = "lo";
      CpuPlatform platform;
      Groups groups(platform, config, c10::Device(c10::kCPU),
                    absl::StrCat("127.0.0.1:", store.port(), "/secret"));
      EXPECT_FALSE(groups.WasSaid("stop"));
      at::Tensor value = Filled(1, rank);
      groups.all().Sum(value);
      if (rank == 0) groups.Say("stop");
      groups.all().Sum(value);
      EXPECT_TRUE(groups.WasSaid("stop"));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// TCP ports on which this process listens.
std::set<int> OwnPorts() {
  std::set<std::string> own;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    own.insert(std::filesystem::read_symlink(fd.path(), closed).string());
  }
  std::set<int> ports;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() < 10 || words[3] != "0A" ||
          own.count(absl::StrCat("socket:[", words[9], "]")) == 0) {
        continue;
      }
      ports.insert(std::stoi(words[1].substr(words[1].rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

TEST(GroupTest, GarbageOfAStrangerDisturbsNobody) {
  std::vector<int> strangers;
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    if (config.rank() == 0) {
      const std::set<int> ports = OwnPorts();
      EXPECT_GE(ports.size(), 2U) << "the store, and Gloo";
      const std::string numbers(64, '\1');
      for (const int port : ports) {
        for (const std::string& garbage : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"),
                                           numbers, std::string(size_t{1} << 20, '\xff')}) {
          sockaddr_in to{};
          to.sin_family = AF_INET;
          to.sin_port = htons(static_cast<uint16_t>(port));
          to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          strangers.push_back(::socket(AF_INET, SOCK_STREAM, 0));
          EXPECT_EQ(::connect(strangers.back(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
          ::send(strangers.back(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
      }
    }
    at::Tensor value = Filled(1, config.rank());
    groups.all().Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(1));
    const auto made = groups.MakeOfAll("more", 1, Groups::Traffic::kOnHost);
    made->Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(2));
  });
  for (const int fd : strangers) ::close(fd);
}

TEST(GroupTest, CollectivesReachTheMembersOnly) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    const int rank = config.rank();
    const std::shared_ptr<Group> made = groups.Make(HalfOf(rank), "parameters", 1);
    Group& half = *made;
    EXPECT_EQ(half.ranks(), HalfOf(rank));

    at::Tensor value = Filled(2, rank);
    half.Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(rank < 2 ? 1 : 5, rank < 2 ? 1 : 5));
    value = Filled(1, rank);
    groups.all().Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(6));

    value = Filled(1, rank);
    half.CopyFromFirst({value});
    EXPECT_THAT(Values(value), ElementsAre(rank < 2 ? 0 : 2));

    at::Tensor gathered = at::empty({4}, at::kFloat);
    half.Gather(gathered, Filled(2, rank));
    const float first = rank < 2 ? 0 : 2;
    EXPECT_THAT(Values(gathered), ElementsAre(first, first, first + 1, first + 1));

    // Part m of rank r: two values 10 r + 2 m, 10 r + 2 m + 1.
    at::Tensor sums = at::empty({2}, at::kFloat);
    half.ReduceScatter(sums, at::arange(4, at::kFloat).add(10 * rank));
    const float both = rank < 2 ? 10 : 50;  // 10 * (0 + 1), 10 * (2 + 3).
    const float part = rank % 2 == 0 ? 0 : 4;
    EXPECT_THAT(Values(sums), ElementsAre(both + part, both + part + 2));

    at::Tensor parts = at::empty({4}, at::kFloat);
    groups.all().ExchangeParts(parts, at::arange(4, at::kFloat).add(10 * rank));
    const auto own = static_cast<float>(rank);
    EXPECT_THAT(Values(parts), ElementsAre(own, own + 10, own + 20, own + 30));
  });
}

TEST(GroupTest, IsMadeForEachUseAndVersion) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    const auto first = groups.Make(HalfOf(config.rank()), "parameters", 1);
    const auto second = groups.Make(HalfOf(config.rank()), "parameters", 2);
    const auto gradients = groups.Make(HalfOf(config.rank()), "gradients", 1);
    EXPECT_NE(second, first);
    EXPECT_NE(gradients, first);
    EXPECT_EQ(groups.Make({0, 1, 2, 3}, "parameters", 1).get(), &groups.all());
    const auto alone = groups.Make({config.rank()}, "parameters", 1);
    at::Tensor value = Filled(1, 7);
    alone->Sum(value);
    EXPECT_THAT(Values(value), ElementsAre(7));
    EXPECT_EQ(alone->torch_group().get(), nullptr);
    groups.all().Sum(value);  // All have connected.
  });
}

// In torch's record of collectives, threads that create groups disturb each other.
TEST(GroupTest, TorchKeepsNoRecord) {
  RunRanks(Ranks(2), [](const TrainerConfig&, Groups& groups) {
    at::Tensor value = Filled(1, 7);
    groups.all().Sum(value);
  });
  EXPECT_THAT(c10d::dump_fr_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false),
              Not(HasSubstr("all_reduce")));
}

TEST(GroupTest, OfAllRanksIsMadeApartFromAll) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    using Traffic = Groups::Traffic;
    for (const Traffic traffic : {Traffic::kOnDevice, Traffic::kOnHost}) {
      const bool on_host = traffic == Traffic::kOnHost;
      const auto made = groups.MakeOfAll(on_host ? "headers" : "payloads", 1, traffic);
      EXPECT_NE(made.get(), &groups.all());
      EXPECT_EQ(made->ranks(), groups.all().ranks());
      // Two threads, each with its own group, in any order.
      at::Tensor value = Filled(2, config.rank());
      std::thread other([&] { made->Sum(value); });
      at::Tensor of_all = Filled(2, 1);
      groups.all().Sum(of_all);
      other.join();
      EXPECT_THAT(Values(value), ElementsAre(6, 6));
      EXPECT_THAT(Values(of_all), ElementsAre(4, 4));
    }
  });
}

TEST(GroupTest, ASumOfFewNumbersIsTheSameOnAllRanks) {
  for (const int ranks : {1, 2, 5}) {
    RunRanks(Ranks(ranks), [&](const TrainerConfig& config, Groups& groups) {
      const auto made = groups.MakeOfAll("headers", 1, Groups::Traffic::kOnHost);
      for (int round = 1; round <= 3; ++round) {
        at::Tensor numbers = at::full({3}, round * (config.rank() + 1), at::kDouble);
        made->SumFew(numbers);
        EXPECT_EQ(numbers[2].item<double>(), round * ranks * (ranks + 1) / 2);
      }
    });
  }
}

TEST(GroupTest, NodesAddUpTheirOwnAndTheirLeadersTheRest) {
  for (const int per_node : {1, 2, 3, 5}) {
    RunRanks(Ranks(5), [&](const TrainerConfig& config, Groups& groups) {
      const int rank = config.rank();
      const auto sum = NodeSum::Join(groups.all(), static_cast<uint64_t>(rank / per_node),
                                     [&](const std::vector<int>& ranks) {
                                       EXPECT_EQ(rank % per_node, 0);
                                       return groups.Make(ranks, "leaders", 1);
                                     });
      EXPECT_EQ(sum == nullptr, per_node == 1);
      if (sum == nullptr) return;
      sum->SetTimeout(absl::Seconds(20));
      for (const int count : {1, 3'000'000}) {
        const at::Tensor value = Filled(count, 1 << rank);
        sum->Sum(count == 1 ? &Group::SumFew : &Group::Sum, value);
        EXPECT_TRUE(value.eq(31).all().item<bool>());
      }
    });
  }
}

TEST(GroupTest, ASumThatMemoryIsNotSharedForGoesAnotherWay) {
  RunRanks(Ranks(3), [](const TrainerConfig& config, Groups& groups) {
    const auto made = groups.MakeOfAll("payloads", 1, Groups::Traffic::kOnHost);
    const at::Tensor value = at::full({2, 3}, config.rank(), at::kInt);
    made->Sum(value);
    EXPECT_TRUE(value.eq(3).all().item<bool>());
    const at::Tensor transposed = at::zeros({2, 3}).t();
    transposed.select(0, 1).fill_(config.rank());
    made->Sum(transposed);
    EXPECT_EQ(transposed[1][1].item<float>(), 3);
    EXPECT_EQ(transposed[2][1].item<float>(), 0);
  });
}

// In a group with shared memory, a closed connection wakes nobody.
TEST(GroupTest, EndsASumInSharedMemory) {
  RunRanks(Ranks(3), [&](const TrainerConfig& config, Groups& groups) {
    const auto made = groups.MakeOfAll("payloads", 1, Groups::Traffic::kOnHost);
    made->Sum(Filled(10, 1));
    std::thread ends([&] {
      absl::SleepFor(absl::Milliseconds(200));
      if (config.rank() == 2) groups.Abort();
    });
    if (config.rank() != 1) {
      EXPECT_THROW(made->Sum(Filled(10, 1)), CollectiveError);
    }
    ends.join();
  });
}

TEST(GroupTest, ClosesWhenNobodyHoldsItAndIsMadeAgain) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    for (int round = 0; round < 3; ++round) {
      at::Tensor value = Filled(1, 1);
      std::shared_ptr<Group> group = groups.Make(HalfOf(config.rank()), "parameters", round);
      group->Sum(value);
      EXPECT_THAT(Values(value), ElementsAre(2));
      groups.all().Sum(value);  // All have finished it.
      const std::weak_ptr<Group> closed = group;
      group.reset();
      EXPECT_TRUE(closed.expired());
      groups.SetTimeout(absl::Seconds(20));
    }
  });
}

TEST(GroupTest, AreMadeWhileOthersAreInUse) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    std::vector<std::shared_ptr<Group>> made;
    std::thread builder([&] {
      absl::SleepFor(absl::Milliseconds(20 * config.rank()));
      made.push_back(groups.Make(HalfOf(config.rank()), "parameters", 1));
      made.push_back(groups.Make(HalfOf(config.rank()), "gradients", 1));
    });
    at::Tensor value = Filled(1, 1);
    for (int step = 0; step < 100; ++step) {
      value.fill_(1);
      groups.all().Sum(value);
    }
    builder.join();
    EXPECT_THAT(Values(value), ElementsAre(4));
    groups.all().Sum(value);  // All have connected.
  });
}

TEST(GroupTest, TimeoutHoldsForAllGroupsAlsoLaterOnes) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    const auto before = groups.Make(HalfOf(config.rank()), "before", 1);
    groups.SetTimeout(absl::Milliseconds(300));
    const auto after = groups.Make(HalfOf(config.rank()), "after", 1);
    const absl::Time start = absl::Now();
    if (config.rank() % 2 == 0) {
      EXPECT_THROW(before->Sum(Filled(1, 1)), CollectiveError);
      try {
        after->Sum(Filled(1, 1));
        ADD_FAILURE() << "a sum without the other member";
      } catch (const CollectiveError& error) {
        EXPECT_THAT(error.what(), HasSubstr("sum over the ranks: "));
      }
    } else {
      absl::SleepFor(absl::Seconds(1));
    }
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  });
}

TEST(GroupTest, ASumOnADeviceIsThereWhenTheStreamHasBeenWaitedFor) {
  RunRanks(Ranks(3), [](const TrainerConfig& config, Groups& groups) {
    at::Tensor value = Filled(2, config.rank());
    bool waited = false;
    groups.all().SumOnDevice(value, [&] { waited = true; });
    EXPECT_TRUE(waited);
    EXPECT_THAT(Values(value), ElementsAre(3, 3));
  });
}

// An abort during the wait for the stream: on a device the sum then looks finished.
TEST(GroupTest, ASumOnADeviceThatIsBrokenOffIsAnError) {
  RunRanks(Ranks(2), [](const TrainerConfig& config, Groups& groups) {
    const auto made = groups.MakeOfAll("payloads", 1, Groups::Traffic::kBesideTraining);
    made->SumOnDevice(Filled(2, config.rank()), [] {});
    try {
      made->SumOnDevice(Filled(2, config.rank()), [&] { groups.Abort(); });
      ADD_FAILURE() << "a sum that was broken off";
    } catch (const CollectiveError& error) {
      EXPECT_THAT(error.what(), HasSubstr("broken off"));
    }
  });
}

TEST(GroupTest, ASumOfFewNumbersIsLateAfterTheTimeout) {
  RunRanks(Ranks(3), [](const TrainerConfig& config, Groups& groups) {
    const auto made = groups.MakeOfAll("headers", 1, Groups::Traffic::kOnHost);
    at::Tensor numbers = at::full({3}, 1, at::kDouble);
    made->SumFew(numbers);  // All are connected.
    groups.SetTimeout(absl::Milliseconds(300));
    const absl::Time start = absl::Now();
    if (config.rank() < 2) {
      EXPECT_THROW(made->SumFew(numbers), CollectiveError);
    } else {
      absl::SleepFor(absl::Seconds(1));
    }
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  });
}

TEST(GroupTest, RankZeroTellsTheOthers) {
  RunRanks(Ranks(3), [](const TrainerConfig& config, Groups& groups) {
    EXPECT_EQ(groups.ShareFromRankZero("plan", absl::StrCat("of ", config.rank())), "of 0");
    EXPECT_EQ(groups.ShareFromRankZero("other", ""), "");
    // Rank 0 need not wait for anybody there, and a rank that is gone cannot be reached.
    at::Tensor value = Filled(1, 1);
    groups.all().Sum(value);
  });
}

TEST(GroupTest, ARankThatIsAloneNeedsNoStore) {
  RunRanks(Ranks(1), [](const TrainerConfig& /*config*/, Groups& groups) {
    at::Tensor value = Filled(2, 3);
    groups.all().Sum(value);
    at::Tensor gathered = at::empty({2}, at::kFloat);
    groups.all().Gather(gathered, value);
    EXPECT_THAT(Values(gathered), ElementsAre(3, 3));
    groups.SetTimeout(absl::Seconds(1));
    EXPECT_EQ(groups.ShareFromRankZero("plan", "mine"), "mine");
  });
}

TEST(GroupTest, TheRanksAgreeOnTheGreatest) {
  RunRanks(Ranks(4), [](const TrainerConfig& config, Groups& groups) {
    const int64_t values[] = {7, 31, 5, 9};
    const int rank = config.rank();
    EXPECT_EQ(groups.GreatestOfAll("first", values[rank], absl::Seconds(20)), 31);
    EXPECT_EQ(groups.GreatestOfAll("second", -values[rank], absl::Seconds(20)), -5);
  });
}

TEST(GroupTest, WithoutOneRankNobodyAgrees) {
  RunRanks(Ranks(3), [](const TrainerConfig& config, Groups& groups) {
    // Rank 2 comes when the others have given up, and must accept that.
    if (config.rank() == 2) absl::SleepFor(absl::Milliseconds(700));
    EXPECT_FALSE(groups.GreatestOfAll("late", 1, absl::Milliseconds(200)).has_value());
    EXPECT_EQ(groups.GreatestOfAll("next", config.rank(), absl::Seconds(20)), 2);
  });
}

}  // namespace
}  // namespace paceline
