// The program itself, as a shell starts it: pipes, and memory.
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/testing/fake_controller.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

constexpr int64_t kMiB = 1 << 20;

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() {
    v1::Job job;
    job.set_id("job-0123456789ab");
    job.set_state(v1::RUNNING);
    job.mutable_spec()->set_name("digits");
    job.add_ranks();
    controller_.SetJobs({job});
  }

  // Its messages go to our error stream, or to where `more` leads them.
  FILE* Start(const std::string& arguments, const std::string& before = "exec ") {
    const std::string line = absl::StrCat("PACELINE_SERVER=", controller_.address(),
                                          " PACELINE_CONFIG=/nonexistent PACELINE_PLAINTEXT=1; "
                                          "export PACELINE_SERVER PACELINE_CONFIG "
                                          "PACELINE_PLAINTEXT; ",
                                          before, "cli/paceline ", arguments, " 2>&1");
    FILE* out = popen(line.c_str(), "r");
    EXPECT_NE(out, nullptr);
    return out;
  }

  FakeController controller_;
};

TEST_F(ProcessTest, ClosedPipeEndsItQuietly) {
  controller_.SetLargeLog(1 << 30);
  // Also where the parent ignores the signal, as some do.
  for (const char* before : {"exec ", "trap '' PIPE; exec "}) {
    FILE* out = Start("job logs digits", before);
    char line[65] = "";
    ASSERT_NE(fgets(line, sizeof(line), out), nullptr);
    EXPECT_EQ(std::string(line), std::string(63, 'x') + "\n");
    const int status = pclose(out);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << before << status;
  }
}

// The most that a process has had in memory so far, in KiB; 0: it is gone.
int64_t PeakKib(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kib;
  }
  return kib;
}

// Of the process alone: what getrusage tells of children begins with what their parent has.
TEST_F(ProcessTest, LargeLogTakesLittleMemory) {
  controller_.SetLargeLog(128 * kMiB);
  FILE* out = Start("job logs digits", "echo $$; exec ");
  char pid[32] = "";
  ASSERT_NE(fgets(pid, sizeof(pid), out), nullptr);
  int64_t bytes = 0;
  int64_t peak = 0;
  static char buffer[1 << 16];
  while (const size_t got = fread(buffer, 1, sizeof(buffer), out)) {
    bytes += static_cast<int64_t>(got);
    // It cannot have ended: a pipe does not hold what is left.
    if (bytes <= 127 * kMiB) peak = PeakKib(std::string(absl::StripAsciiWhitespace(pid)));
  }
  EXPECT_EQ(pclose(out), 0);
  EXPECT_EQ(bytes, 128 * kMiB);
#if defined(__SANITIZE_ADDRESS__) || defined(_GLIBCXX_TSAN)
  GTEST_SKIP() << "what a sanitizer takes is not the program's";
#endif
  EXPECT_GT(peak, 0);
  EXPECT_LT(peak / 1024, 96) << "MiB";
}

}  // namespace
}  // namespace paceline
