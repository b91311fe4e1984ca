#include "tests/integration/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/log.h"

extern char** environ;

namespace paceline {

Process::Process(const std::vector<std::string>& argv, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int error = posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  PACELINE_CHECK(error == 0) << "cannot start " << argv[0] << ": error " << error;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), exit_code_(other.exit_code_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

Process::~Process() {
  if (pid_ != 0 && !exit_code_.has_value()) Kill();
}

void Process::Signal(int signal) const { kill(pid_, signal); }

void Process::Kill() {
  Signal(SIGKILL);
  Wait();
}

int Process::Wait(absl::Duration limit) {
  if (exit_code_.has_value()) return *exit_code_;
  pollfd ended{static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), POLLIN, 0};
  const bool in_time = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) == 1;
  close(ended.fd);
  if (!in_time) Signal(SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  exit_code_ = !in_time ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return *exit_code_;
}

Finished RunToEnd(const std::vector<std::string>& argv, absl::Duration limit) {
  std::string log = std::string(std::getenv("TEST_TMPDIR")) + "/outputXXXXXX";
  close(mkstemp(log.data()));
  Process process(argv, log);
  const int code = process.Wait(limit);
  return {code, ReadFile(log)};
}

std::vector<pid_t> ProcessesMentioning(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == getpid()) continue;
    // Empty for a zombie.
    if (absl::StrContains(ReadFile(entry.path() / "cmdline"), text)) found.push_back(pid);
  }
  return found;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

}  // namespace paceline
