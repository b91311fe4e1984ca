// paceline: connects the command line to the terminal, the output, the environment and Ctrl-C.
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <streambuf>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/command_line.h"

namespace paceline {
namespace {

// All 0 if the output is no terminal.
winsize TerminalSize() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// From the passwd entry; empty if there is none.
std::string AccountName() {
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> text(1 << 14);
  while (getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found) == ERANGE) {
    text.resize(2 * text.size());
  }
  return found == nullptr ? "" : found->pw_name;
}

// Standard output. Unlike std::cout it keeps the cause of a failed write. Text is buffered until it
// is flushed, on a terminal until the end of the line. The first failure raises the interrupt, so
// that no command continues when nobody reads.
class Output : public std::streambuf {
 public:
  explicit Output(Interrupt& interrupt)
      : by_line_(isatty(STDOUT_FILENO) != 0), interrupt_(interrupt) {}

  // Returns 0, or the errno of the first write, or of the close, that failed. Nothing is written
  // after it.
  int Close() {
    sync();
    // Whoever has closed the output wants none, so not writing is no error.
    if (close(STDOUT_FILENO) != 0 && errno != EBADF) Fail(errno);
    return error_;
  }

 protected:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }

  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const absl::string_view added(text, static_cast<size_t>(size));
    absl::StrAppend(&waiting_, added);
    const bool full = waiting_.size() >= kMostWaiting;
    if ((full || (by_line_ && absl::StrContains(added, '\n'))) && sync() != 0) return 0;
    return size;
  }

  int sync() override {
    size_t done = 0;
    while (error_ == 0 && done < waiting_.size()) {
      const ssize_t wrote = write(STDOUT_FILENO, waiting_.data() + done, waiting_.size() - done);
      if (wrote >= 0) {
        done += static_cast<size_t>(wrote);
      } else if (errno != EINTR) {
        Fail(errno);
      }
    }
    waiting_.clear();
    return error_ == 0 ? 0 : -1;
  }

 private:
  static constexpr size_t kMostWaiting = 1 << 16;

  void Fail(int error) {
    if (error_ == 0) error_ = error;
    interrupt_.Raise();
  }

  const bool by_line_;
  Interrupt& interrupt_;
  std::string waiting_;
  int error_ = 0;
};

// Reserves the numbers of closed standard streams: otherwise a socket or file of ours would get the
// number, and the text meant for people.
void KeepClosedStreams() {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) close(fd);
}

// Passes SIGINT and SIGTERM to `interrupt`. The second signal, or one without a listener, ends the
// process.
[[noreturn]] void WaitForSignals(const sigset_t& signals, Interrupt& interrupt) {
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    const bool first = !interrupt.raised();
    if (!interrupt.Raise() || !first) _exit(kCliInterrupted);
  }
}

int Main(int argc, char** argv) {
  KeepClosedStreams();
  // Blocked before any thread starts, so that all threads inherit it; one thread waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // End quietly when the output is no longer read, even if the parent ignores the signal.
  signal(SIGPIPE, SIG_DFL);
  // Lives until the process ends, like the thread that uses it.
  static Interrupt interrupt;
  std::thread([signals] { WaitForSignals(signals, interrupt); }).detach();

  const winsize size = TerminalSize();
  static Output output(interrupt);
  static std::ostream out(&output);
  Program program(
      {out, std::cerr, isatty(STDOUT_FILENO) != 0, size.ws_col, Variable, size.ws_row, AccountName},
      interrupt);
  int exit = RunCommandLine(program, std::vector<std::string>(argv + 1, argv + argc));
  const int error = output.Close();
  if (error != 0) {
    exit = program.Fail(kCliFailed,
                        absl::StrCat("the output cannot be written: ", std::strerror(error)));
  }
  // As in coreutils: failing to write messages is a failure, too.
  if (!std::cerr && exit == kCliOk) exit = kCliFailed;
  // Skips the destructors of objects that the signal thread still uses.
  _exit(exit);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
