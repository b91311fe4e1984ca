// The program itself, as a shell starts it: pipes, and memory.
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/testing/fake_controller.h"
#include "gmock/gmock.h"
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

  // Runs the program by a shell; the pipe carries its output and its messages.
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

  // The rest of its output.
  static std::string Rest(FILE* out) {
    std::string text;
    char buffer[4096];
    while (const size_t got = fread(buffer, 1, sizeof(buffer), out)) text.append(buffer, got);
    return text;
  }

  FakeController controller_;
};

TEST_F(ProcessTest, ClosedPipeEndsItQuietly) {
  controller_.SetLargeLog(1 << 30);
  // Even if the parent ignores the signal, as some do.
  for (const char* before : {"exec ", "trap '' PIPE; exec "}) {
    FILE* out = Start("job logs digits", before);
    char line[65] = "";
    ASSERT_NE(fgets(line, sizeof(line), out), nullptr);
    EXPECT_EQ(std::string(line), std::string(63, 'x') + "\n");
    const int status = pclose(out);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << before << status;
  }
}

// What the shell prints: the program's messages and exit code, with its output redirected.
class OutputTest : public ProcessTest {
 protected:
  std::string Run(const std::string& arguments, const std::string& to,
                  const std::string& before = "") {
    FILE* out = Start(absl::StrCat(arguments, " 2>&1 ", to, "; echo \"exit $?\"; true"), before);
    const std::string text = Rest(out);
    pclose(out);
    return text;
  }
};

TEST_F(OutputTest, ThatCannotBeWrittenIsAFailureOfEveryCommand) {
  for (const char* command :
       {"job list", "job list -o json", "job list -o yaml", "job list -o wide", "job list -o name",
        "job describe digits", "job describe digits -o json", "node list -o json", "cluster status",
        "completion bash", "man", "version", "version -o json", "--help", "--version",
        "job list --help"}) {
    EXPECT_EQ(Run(command, ">/dev/full"),
              "error: the output cannot be written: No space left on device\nexit 1\n")
        << command;
  }
}

TEST_F(OutputTest, OneThatEndsWithoutAnOutputOrMessagesFailsToo) {
  EXPECT_EQ(Run("job list", ">&-"),
            "error: the output cannot be written: Bad file descriptor\nexit 1\n");
  EXPECT_EQ(Run("job list -o json", "2>/dev/full >/dev/full"), "exit 1\n");
  EXPECT_EQ(Run("job describe other", "2>&-"), "exit 3\n") << "it keeps its own code";
}

TEST_F(OutputTest, AStreamThatIsWrittenInPartEndsAtOnce) {
  controller_.SetLargeLog(1 << 30);
  const std::string file = ::testing::TempDir() + "/part";
  EXPECT_EQ(Run("job logs digits", ">" + file, "trap '' XFSZ; ulimit -f 64; "),
            "error: the output cannot be written: File too large\nexit 1\n");
}

TEST_F(OutputTest, AWatchEndsWithItsOutput) {
  v1::JobEvent event;
  event.set_type(v1::MODIFIED);
  event.mutable_job()->set_id("job-0123456789ab");
  controller_.AddWatch({{event}, std::nullopt});
  EXPECT_EQ(Run("job watch -o json", ">/dev/full"),
            "error: the output cannot be written: No space left on device\nexit 1\n");
}

TEST_F(ProcessTest, AJobFileThatComesFromElsewhereHasTheCurrentFolder) {
  const std::string file = ::testing::TempDir() + "/elsewhere.yaml";
  std::ofstream(file) << "name: digits\nmodel: resnet18\ndata: {train: t}\nsteps: 100\n"
                         "optimizer: {kind: sgd, learning_rate: 0.1}\n";
  for (const std::string& line :
       {"submit - <" + file, "submit /dev/stdin <" + file, "submit /dev/fd/3 3<" + file}) {
    FILE* out = Start(line);
    EXPECT_THAT(Rest(out), ::testing::HasSubstr("submitted digits")) << line;
    EXPECT_EQ(pclose(out), 0) << line;
  }
  FILE* out = Start("submit -", "cat " + file + " | ");
  EXPECT_THAT(Rest(out), ::testing::HasSubstr("submitted digits"));
  EXPECT_EQ(pclose(out), 0);
  ASSERT_EQ(controller_.submits().size(), 4u);
  for (const v1::SubmitJobRequest& request : controller_.submits()) {
    EXPECT_EQ(request.spec().data().train(), (std::filesystem::current_path() / "t").string());
  }
}

TEST_F(ProcessTest, IsRunByAnAccountOfTheSystem) {
  v1::JobAdvice advice;
  advice.add_decisions()->set_id(3);
  controller_.SetAdvice(std::move(advice));
  FILE* out = Start("job apply digits 3", "exec env -u USER -u LOGNAME ");
  const std::string text = Rest(out);
  const int status = pclose(out);
  EXPECT_EQ(status, 0) << text;
  const passwd* const account = getpwuid(geteuid());
  ASSERT_NE(account, nullptr);
  EXPECT_EQ(controller_.applied().at(0).by(), account->pw_name);
}

// Peak memory of a process so far, in KiB; 0: it is gone.
int64_t PeakKib(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kib;
  }
  return kib;
}

// Measures the process itself: getrusage for children starts from the parent's memory.
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
    // It cannot have ended, since a pipe does not hold the rest.
    if (bytes <= 127 * kMiB) peak = PeakKib(std::string(absl::StripAsciiWhitespace(pid)));
  }
  EXPECT_EQ(pclose(out), 0);
  EXPECT_EQ(bytes, 128 * kMiB);
#if defined(__SANITIZE_ADDRESS__) || defined(_GLIBCXX_TSAN)
  GTEST_SKIP() << "what a sanitizer takes is not the program's";
#endif
  EXPECT_GT(peak, 0);
  EXPECT_LT(peak / 1024, 64) << "MiB";
}

}  // namespace
}  // namespace paceline
