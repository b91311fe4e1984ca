#include "worker/daemon/checks/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/event_loop.h"

namespace paceline {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);  // Interval of checks for `stop`, end.

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

class Pipe {
 public:
  Pipe() { opened_ = ::pipe2(ends_.data(), O_CLOEXEC) == 0; }
  ~Pipe() {
    CloseWriteEnd();
    if (opened_) ::close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool opened() const { return opened_; }
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void CloseWriteEnd() {
    if (opened_ && ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

  // Reads what is available and keeps the first `limit` bytes of all. False at the end of the pipe.
  bool Read(size_t limit, std::string& text) const {
    std::array<char, 16384> buffer;
    const ssize_t size = ::read(ends_[0], buffer.data(), buffer.size());
    if (size <= 0) return size < 0 && errno == EINTR;
    text.append(buffer.data(), std::min(static_cast<size_t>(size), limit - text.size()));
    return true;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
  bool opened_ = false;
};

// Returns the child's id, or a negative errno.
pid_t Spawn(std::vector<std::string>& arguments, std::vector<std::string>& environment, int out,
            int err) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, 1);
  ::posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  // Its own process group, so that its children can be killed with it.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, arguments[0].c_str(), &actions, &attributes,
                                   Pointers(arguments).data(), Pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : -error;
}

}  // namespace

absl::StatusOr<ProgramEnd> RunProgram(std::vector<std::string> arguments,
                                      std::vector<std::string> environment,
                                      const ProgramLimits& limits, const std::atomic<bool>& stop) {
  const std::string name = arguments.at(0);
  Pipe out;
  Pipe err;
  if (!out.opened() || !err.opened()) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  const pid_t child = Spawn(arguments, environment, out.write_end(), err.write_end());
  if (child < 0) return absl::ErrnoToStatus(-child, absl::StrCat("cannot start ", name));
  out.CloseWriteEnd();
  err.CloseWriteEnd();

  const absl::Time deadline = EventLoop::Now() + limits.time;
  ProgramEnd end;
  std::array<pollfd, 2> waited = {{{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}}};
  int code = 0;
  while (true) {
    ::poll(waited.data(), waited.size(), static_cast<int>(absl::ToInt64Milliseconds(kLook)));
    const bool quiet = waited[0].revents == 0 && waited[1].revents == 0;
    if (waited[0].revents != 0 && !out.Read(limits.bytes, end.out)) waited[0].fd = -1;
    if (waited[1].revents != 0 && !err.Read(limits.bytes, end.err)) waited[1].fd = -1;
    // Its children may keep the pipes open, so only its own end counts.
    const bool silent = waited[0].fd < 0 && waited[1].fd < 0;
    if ((quiet || silent) && ::waitpid(child, &code, WNOHANG) == child) break;
    end.timed_out = EventLoop::Now() > deadline;
    if (!stop && !end.timed_out) continue;
    ::kill(-child, SIGKILL);
    ::waitpid(child, &code, 0);
    if (!end.timed_out) return absl::CancelledError(absl::StrCat(name, " was stopped"));
    break;
  }
  ::kill(-child, SIGKILL);
  if (WIFEXITED(code)) end.exit_code = WEXITSTATUS(code);
  return end;
}

}  // namespace paceline
