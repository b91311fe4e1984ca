// Runs the tests of a program, as gtest_main does. When Bazel ends it because its time is over, it
// tells which test was running, and the stacks of all threads, so that a hang names its cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace {

// Written before the handler can run, and read by it: no memory is allocated there.
char running[512] = "no test";
char own_pid[16];
pid_t own_process = 0;

void Say(const char* text) {
  // Nothing can be done about an error here.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void TellWhereItHangs(int signal_number) {
  signal(signal_number, SIG_DFL);
  if (getpid() == own_process) {  // Else a child that has not become another program.
    Say("\nended from outside (its time is over?) in ");
    Say(running);
    Say("; its threads:\n");
    // The child looks at its parent, which the kernel's Yama module may forbid otherwise.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    const pid_t child = fork();
    if (child == 0) {
      dup2(STDERR_FILENO, STDOUT_FILENO);
      execlp("eu-stack", "eu-stack", "-p", own_pid, nullptr);
      Say("eu-stack cannot be started (Debian: elfutils)\n");
      _exit(1);
    }
    if (child > 0) waitpid(child, nullptr, 0);
  }
  raise(signal_number);
}

class RunningTest : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo& test) override {
    std::snprintf(running, sizeof(running), "%s.%s", test.test_suite_name(), test.name());
  }
  void OnTestEnd(const ::testing::TestInfo& /*test*/) override {
    std::snprintf(running, sizeof(running), "no test");
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  // Owned by GoogleTest from here on.
  ::testing::UnitTest::GetInstance()->listeners().Append(new RunningTest);
  own_process = getpid();
  std::snprintf(own_pid, sizeof(own_pid), "%d", own_process);
  struct sigaction action = {};
  action.sa_handler = TellWhereItHangs;
  sigaction(SIGTERM, &action, nullptr);
  return RUN_ALL_TESTS();
}
