#include "tests/gpu/nccl_ranks.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/gpu/gpu_count.h"

extern char** environ;

namespace paceline {
namespace {

constexpr int kRefused = 77;
constexpr absl::Duration kTimeout = absl::Seconds(20);

}  // namespace

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::_Exit(1);
}

int RunTestsOrRank(int argc, char** argv,
                   const std::function<void(const NcclRank&, const std::string&)>& rank) {
  if (argc != 6 || std::strcmp(argv[1], "member") != 0) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  TrainerConfig config;
  config.cuda = true;
  config.member.rank = std::atoi(argv[2]);
  config.member.world_size = std::atoi(argv[3]);
  config.interface = "lo";
  config.startup_timeout = absl::Seconds(60);
  CudaPlatform platform;
  const absl::StatusOr<c10::Device> device = platform.OpenDevice(config);
  Expect(device.ok(), "OpenDevice");
  std::optional<Groups> groups;
  try {
    groups.emplace(platform, config, *device, absl::StrCat("127.0.0.1:", argv[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "refused: %s\n", error.what());
    return kRefused;
  }
  groups->SetTimeout(kTimeout);
  rank({config, platform, *device, *groups}, argv[5]);
  std::fflush(nullptr);
  std::_Exit(0);
}

void NcclRanksTest::SetUp() { PACELINE_SKIP_WITHOUT_GPU(); }

void NcclRanksTest::RunRanks(int size, const std::string& what) {
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

void NcclRanksTest::Spawn(int rank, int size, int port, const std::string& what) {
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

std::string NcclRanksTest::Log(const Rank& rank) {
  std::ifstream file(rank.log);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace paceline
