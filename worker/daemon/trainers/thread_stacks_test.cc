#include "worker/daemon/trainers/thread_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "worker/daemon/trainers/process_state.h"
#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// A waiting process, suspended on request.
class Waiting {
 public:
  explicit Waiting(bool suspended) : pid_(::fork()) {
    if (pid_ == 0) {
      while (true) ::pause();
    }
    int status = 0;
    if (suspended) ::kill(pid_, SIGSTOP);
    if (suspended) ::waitpid(pid_, &status, WUNTRACED);
  }
  ~Waiting() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

std::string Saved(pid_t pid, const std::optional<UserIds>& user = std::nullopt) {
  const std::string path = ::testing::TempDir() + "/stacks.txt";
  const std::atomic<bool> never{false};
  EXPECT_TRUE(SaveStacks(pid, user, path, never).ok());
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(ThreadStacksTest, TellsWhatTheKernelKnowsOfEachThread) {
  const Waiting process(true);
  // Before exec, a child has the name of this process.
  std::ifstream comm("/proc/self/comm");
  std::string name;
  ASSERT_TRUE(std::getline(comm, name) && !name.empty());
  EXPECT_THAT(KernelStacks(process.pid()), HasSubstr(name));
  EXPECT_THAT(KernelStacks(process.pid()), HasSubstr("state T"));
}

TEST(ThreadStacksTest, FramesOfRunningAndSuspendedProcessesOrWhyThereAreNone) {
  for (const bool suspended : {false, true}) {
    const Waiting process(suspended);
    // The frames show the call if the tool is installed and may look at other processes.
    EXPECT_THAT(Saved(process.pid()),
                AnyOf(HasSubstr("TestBody"), HasSubstr("eu-stack is not installed"),
                      HasSubstr("Operation not permitted")));
    EXPECT_EQ(ProcessState(process.pid()).Suspended(), suspended) << "left as it was found";
  }
}

TEST(ThreadStacksTest, ProcessOfAnotherUserIsReadAsThatUser) {
  PACELINE_NEEDS_OTHER_USERS();
  const UserIds nobody = {kNobody, kNobody, {}};
  const std::string own = Saved(Waiting(false).pid(), nobody);
  // The tool may not look at a process of root.
  EXPECT_THAT(own, AnyOf(HasSubstr("ermi"), HasSubstr("eu-stack is not installed")));
  EXPECT_THAT(own, ::testing::Not(HasSubstr("TestBody")));
  std::string theirs;
  const pid_t child = ::fork();
  if (child == 0) {
    // The tool may only look at its own kind: the child becomes the same user, as a trainer does.
    if (BecomeUser(nobody) == nullptr) ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  while (theirs.find("nanosleep") == std::string::npos && ::kill(child, 0) == 0) {
    theirs = Saved(child, nobody);
    if (theirs.find("not installed") != std::string::npos ||
        theirs.find("not permitted") != std::string::npos) {
      break;
    }
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(theirs, AnyOf(HasSubstr("nanosleep"), HasSubstr("not installed"),
                            HasSubstr("not permitted")));
}

TEST(ThreadStacksTest, ProcessThatIsGoneIsTold) {
  EXPECT_THAT(Saved(999999999), HasSubstr("process 999999999 is gone"));
}

TEST(ThreadStacksTest, FileThatCannotBeWrittenIsAnError) {
  const std::atomic<bool> never{false};
  EXPECT_FALSE(SaveStacks(::getpid(), std::nullopt, "/nonexistent/stacks.txt", never).ok());
}

}  // namespace
}  // namespace paceline
