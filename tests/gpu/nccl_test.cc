// Several ranks of NCCL on one GPU. NCCL refuses two ranks on one device of one host, so each
// says that it is another host, and they talk over sockets. Where NCCL refuses that too, the
// tests are skipped with its reason.
//
// Each rank is a process of this program: `nccl_test member RANK SIZE STORE_PORT WHAT`.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/gpu/gpu_count.h"
#include "worker/trainer/comm/cuda_platform.h"
#include "worker/trainer/comm/group.h"

extern char** environ;

namespace paceline {
namespace {

constexpr int kRefused = 77;
constexpr absl::Duration kTimeout = absl::Seconds(20);

// A rank.

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::_Exit(1);
}

double SumOverRanks(Group& group, double value, c10::Device device) {
  const at::Tensor tensor = at::full({1000}, value, at::TensorOptions().device(device));
  group.Sum(tensor);
  return tensor[999].item<double>();
}

void AllReduce(Groups& groups, int rank, int size, c10::Device device) {
  for (int round = 1; round <= 3; ++round) {
    Expect(SumOverRanks(groups.all(), rank + round, device) == size * (size - 1) / 2 + size * round,
           "the sum over all ranks");
  }
  // As a new plan's groups are made: on another thread, beside sums over all.
  const std::vector<int> pair = {rank / 2 * 2, rank / 2 * 2 + 1};
  std::shared_ptr<Group> made;
  std::thread maker([&] { made = groups.Make(pair, "test", 1); });
  SumOverRanks(groups.all(), 1, device);
  maker.join();
  Expect(SumOverRanks(*made, rank, device) == pair[0] + pair[1], "the sum over a pair");
  groups.all().Barrier();
}

void LosePeer(Groups& groups, int rank, c10::Device device) {
  SumOverRanks(groups.all(), 1, device);
  if (rank == 1) ::raise(SIGKILL);
  try {
    // An aborted collective may return; the next one then throws.
    for (int i = 0; i < 10; ++i) SumOverRanks(groups.all(), 1, device);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "told: %s\n", error.what());
    // The device still works.
    Expect(at::arange(10, at::TensorOptions().device(device)).sum().item<int>() == 45,
           "the sum after the failure");
    return;
  }
  Expect(false, "nobody was told of the lost peer");
}

int RunMember(int rank, int size, const std::string& port, const std::string& what) {
  TrainerConfig config;
  config.cuda = true;
  config.member.rank = rank;
  config.member.world_size = size;
  config.interface = "lo";
  config.startup_timeout = absl::Seconds(60);
  CudaPlatform platform;
  const absl::StatusOr<c10::Device> device = platform.OpenDevice(config);
  Expect(device.ok(), "OpenDevice");
  std::optional<Groups> groups;
  try {
    groups.emplace(platform, config, *device, "127.0.0.1:" + port);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    return kRefused;
  }
  groups->SetTimeout(kTimeout);
  what == "lose_peer" ? LosePeer(*groups, rank, *device) : AllReduce(*groups, rank, size, *device);
  std::fflush(nullptr);
  std::_Exit(0);
}

// The tests, which do not use the GPU themselves.

class NcclTest : public testing::Test {
 protected:
  struct Rank {
    pid_t pid;
    std::string log;
    int status = 0;
  };

  void SetUp() override { PACELINE_SKIP_WITHOUT_GPU(); }

  // Runs `size` ranks to their ends; skips the test if NCCL refuses.
  void RunRanks(int size, const std::string& what) {
    const StoreServer store;
    for (int rank = 0; rank < size; ++rank) Spawn(rank, size, store.port(), what);
    for (Rank& rank : ranks_) {
      ASSERT_EQ(::waitpid(rank.pid, &rank.status, 0), rank.pid);
    }
    for (const Rank& rank : ranks_) {
      if (WIFEXITED(rank.status) && WEXITSTATUS(rank.status) == kRefused) {
        GTEST_SKIP() << "NCCL does not take several ranks on one GPU here: " << Log(rank);
      }
    }
  }

  void Spawn(int rank, int size, int port, const std::string& what) {
    Rank started;
    started.log = absl::StrCat(testing::TempDir(), "/nccl-", what, "-", rank, ".log");
    const std::vector<std::string> words = {"/proc/self/exe",     "member",
                                            std::to_string(rank), std::to_string(size),
                                            std::to_string(port), what};
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::vector<std::string> settings = {absl::StrCat("NCCL_HOSTID=paceline-", rank),
                                         "NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1",
                                         "NCCL_IB_DISABLE=1", "NCCL_DEBUG=WARN"};
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    for (std::string& setting : settings) environment.push_back(setting.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, started.log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    ASSERT_EQ(posix_spawn(&started.pid, words[0].c_str(), &files, nullptr, arguments.data(),
                          environment.data()),
              0);
    posix_spawn_file_actions_destroy(&files);
    ranks_.push_back(started);
  }

  static std::string Log(const Rank& rank) {
    std::ifstream file(rank.log);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::vector<Rank> ranks_;
};

TEST_F(NcclTest, FourRanksSumOverAllAndOverPairsMadeMeanwhile) {
  RunRanks(4, "all_reduce");
  for (const Rank& rank : ranks_) EXPECT_EQ(rank.status, 0) << Log(rank);
}

TEST_F(NcclTest, SurvivorOfAKilledPeerLivesAndTells) {
  RunRanks(2, "lose_peer");
  if (IsSkipped()) return;
  EXPECT_EQ(ranks_[0].status, 0) << Log(ranks_[0]);
  EXPECT_TRUE(absl::StrContains(Log(ranks_[0]), "told: ")) << Log(ranks_[0]);
  EXPECT_TRUE(WIFSIGNALED(ranks_[1].status));
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc == 6 && std::strcmp(argv[1], "member") == 0) {
    return paceline::RunMember(std::atoi(argv[2]), std::atoi(argv[3]), argv[4], argv[5]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
