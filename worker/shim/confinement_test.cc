#include "worker/shim/confinement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
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

#include "absl/strings/str_cat.h"
#include "worker/shim/testing/other_users.h"
#include "worker/shim/testing/shim_test.h"
#include "worker/shim/trainer_dir.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
  EXPECT_THAT(status, HasSubstr("Uid:\t65534\t65534\t65534\t65534\n"));
  EXPECT_THAT(status, HasSubstr("CapEff:\t0000000000000000\n"));
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
  EXPECT_THAT(status, HasSubstr("Uid:\t0\t0\t0\t65534\n"));
  EXPECT_THAT(status, HasSubstr("Gid:\t0\t0\t0\t65534\n"));
  EXPECT_THAT(status, HasSubstr("CapEff:\t0000000000000000\n"));
  EXPECT_FALSE(reads_secrets);
}

using ConfinedShimTest = ShimTest;

TEST_F(ConfinedShimTest, ProgramsWithMorePrivilegesGiveNone) {
  StartScript("exec cat /proc/self/status");
  Wait();
  EXPECT_THAT(Log(), HasSubstr("NoNewPrivs:\t1\n"));
}

TEST_F(ConfinedShimTest, LimitsAreTheTrainers) {
  confinement_.limit_nofile = 123;
  confinement_.limit_core = 0;
  confinement_.limit_memory = uint64_t{3} << 30;
  confinement_.limit_processes = 4567;
  StartScript("exec cat /proc/self/limits");
  Wait();
  EXPECT_THAT(Log(), AllOf(ContainsRegex("Max open files +123 +123 "),
                           ContainsRegex("Max core file size +0 +0 "),
                           ContainsRegex("Max data size +3221225472 +3221225472 "),
                           ContainsRegex("Max processes +4567 +4567 ")));
}

TEST_F(ConfinedShimTest, TrainerThatNeedsMoreMemoryThanItMayHaveDoesNotGetIt) {
  confinement_.limit_memory = 64 << 20;
  StartScript("head -c 100000000 /dev/zero | tail -c 90000000 | wc -c");
  Wait();
  EXPECT_THAT(Log(), HasSubstr("memory exhausted"));
}

TEST_F(ConfinedShimTest, TrainerIsAnotherUserWithoutAnyPrivilege) {
  PACELINE_NEEDS_OTHER_USERS();
  RunAsNobody();
  StartScript("cat /proc/self/status; touch made; ls .. 2>&1; touch ../forged");
  EXPECT_NE(Wait().exit_code, 0) << "it can write where the shim's records lie";
  EXPECT_THAT(Log(), AllOf(HasSubstr("Uid:\t65534\t65534\t65534\t65534\n"),
                           HasSubstr("Gid:\t65534\t65534\t65534\t65534\n"),
                           HasSubstr("Groups:\t12345 65534 \n"), HasSubstr("NoNewPrivs:\t1\n")));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    EXPECT_THAT(Log(), HasSubstr(absl::StrCat(set, ":\t0000000000000000\n")));
  }
  struct stat made;
  ASSERT_EQ(::stat((own_dir_ + "/made").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, kNobody);
}

TEST_F(ConfinedShimTest, TrainerOfAnotherUserDiesWithTheShim) {
  PACELINE_NEEDS_OTHER_USERS();
  RunAsNobody();
  StartScript("echo $$ > pid; exec sleep 1000");
  const pid_t trainer = PidIn("pid");
  ASSERT_TRUE(Eventually([&] { return ReadTrainerLock(dir_)->trainer != 0; }));
  ::kill(shim_, SIGKILL);
  ::waitpid(shim_, nullptr, 0);
  reaped_ = true;
  EXPECT_TRUE(Gone(trainer));
}

TEST_F(ConfinedShimTest, LinkInPlaceOfTheLogIsFollowedAsTheTrainersUserOnly) {
  PACELINE_NEEDS_OTHER_USERS();
  RunAsNobody();
  const std::string secret = dir_ + "/secret";
  std::ofstream(secret) << "x";
  ASSERT_EQ(::mkdir((own_dir_ + "/log").c_str(), 0755), 0);
  ASSERT_EQ(::symlink(secret.c_str(),
                      absl::StrCat(own_dir_, "/log/", trainer_dir::kFirstLogSegment).c_str()),
            0);
  StartScript("echo overwritten");
  EXPECT_THAT(Wait().start_error, HasSubstr("Permission denied"));
  EXPECT_EQ(Contents(secret), "x");
}

}  // namespace
}  // namespace paceline
