#include "worker/shim/confinement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ConfinementTest, FlagsTellAllOfIt) {
  Confinement confinement;
  EXPECT_THAT(ConfinementFlags(confinement), IsEmpty());
  confinement.user = UserIds{1000, 100, {100, 44}};
  confinement.limit_nofile = 5;
  confinement.limit_core = 0;
  confinement.limit_memory = uint64_t{1} << 40;
  confinement.limit_processes = 7;
  const std::vector<std::string> flags = ConfinementFlags(confinement);
  EXPECT_THAT(flags, ElementsAre("--uid", "1000", "--gid", "100", "--groups", "100,44",
                                 "--limit-nofile", "5", "--limit-core", "0", "--limit-memory",
                                 "1099511627776", "--limit-processes", "7"));
  Confinement read;
  for (size_t i = 0; i < flags.size(); i += 2) {
    EXPECT_TRUE(TakeConfinementFlag(flags[i], flags[i + 1], read)) << flags[i];
  }
  EXPECT_EQ(ConfinementFlags(read), flags);
}

TEST(ConfinementTest, ImpossibleValuesAreRefusedAndOtherFlagsIgnored) {
  Confinement confinement;
  EXPECT_FALSE(TakeConfinementFlag("--uid", "-1", confinement));
  EXPECT_FALSE(TakeConfinementFlag("--groups", "1,x", confinement));
  EXPECT_FALSE(TakeConfinementFlag("--limit-core", "unlimited", confinement));
  EXPECT_TRUE(TakeConfinementFlag("--dir", "x", confinement));
}

TEST(ConfinementTest, OneThreadBecomesAUserAndTheOthersStay) {
  PACELINE_NEEDS_OTHER_USERS();
  std::string status;
  bool reads_secrets = true;
  std::thread([&] {
    EXPECT_EQ(BecomeUser({kNobody, kNobody, {}}), nullptr);
    std::ifstream file("/proc/thread-self/status");
    status.assign(std::istreambuf_iterator<char>(file), {});
    reads_secrets = ::access("/etc/shadow", R_OK) == 0;
  }).join();
  EXPECT_THAT(status, ::testing::HasSubstr("Uid:\t65534\t65534\t65534\t65534\n"));
  EXPECT_THAT(status, ::testing::HasSubstr("CapEff:\t0000000000000000\n"));
  EXPECT_FALSE(reads_secrets);
  EXPECT_EQ(::geteuid(), 0);
}

TEST(ConfinementTest, ThreadThatActsAsAUserIsOutOfItsReach) {
  PACELINE_NEEDS_OTHER_USERS();
  std::string status;
  bool reads_secrets = true;
  std::promise<pid_t> acting;
  std::promise<void> over;
  std::thread thread([&] {
    EXPECT_EQ(ActAsUser({kNobody, kNobody, {}}), nullptr);
    std::ifstream file("/proc/thread-self/status");
    status.assign(std::istreambuf_iterator<char>(file), {});
    reads_secrets = std::ifstream("/etc/shadow").good();
    acting.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
    over.get_future().wait();
  });
  const pid_t actor = acting.get_future().get();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_nobody = BecomeUser({kNobody, kNobody, {}}) == nullptr;
    const bool refused = ::syscall(SYS_tgkill, ::getppid(), actor, SIGKILL) != 0 && errno == EPERM;
    ::_exit(is_nobody && refused ? 0 : 1);
  }
  int code = -1;
  EXPECT_EQ(::waitpid(child, &code, 0), child);
  EXPECT_EQ(code, 0);
  over.set_value();
  thread.join();
  EXPECT_THAT(status, ::testing::HasSubstr("Uid:\t0\t0\t0\t65534\n"));
  EXPECT_THAT(status, ::testing::HasSubstr("Gid:\t0\t0\t0\t65534\n"));
  EXPECT_THAT(status, ::testing::HasSubstr("CapEff:\t0000000000000000\n"));
  EXPECT_FALSE(reads_secrets);
}

}  // namespace
}  // namespace paceline
