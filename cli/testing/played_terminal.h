// A terminal played by a test: runs a program, and reads what it shows.
#ifndef CLI_TESTING_PLAYED_TERMINAL_H_
#define CLI_TESTING_PLAYED_TERMINAL_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace paceline {

class PlayedTerminal {
 public:
  // Runs the program on a terminal of that size, with only this environment and the options of the
  // sanitizers.
  PlayedTerminal(std::vector<std::string> command, std::vector<std::string> environment, int width,
                 int height) {
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(width);
    size.ws_row = static_cast<unsigned short>(height);
    EXPECT_EQ(openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    tcgetattr(slave_, &before_);
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (absl::StrContains(*variable, "SAN_OPTIONS=")) environment.emplace_back(*variable);
    }
    std::vector<char*> arguments = Pointers(command);
    std::vector<char*> variables = Pointers(environment);
    child_ = fork();
    if (child_ == 0) {
      close(master_);
      login_tty(slave_);
      execve(arguments[0], arguments.data(), variables.data());
      _exit(127);
    }
  }
  ~PlayedTerminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    HangUp();
  }
  PlayedTerminal(const PlayedTerminal&) = delete;
  PlayedTerminal& operator=(const PlayedTerminal&) = delete;

  // Reads until `text` has been shown since the last call; returns all that was shown since then.
  std::string ReadUntil(const std::string& text) {
    return ReadUntil([&](const std::string& shown) { return shown.find(text) != shown.npos; },
                     text);
  }
  template <typename Holds>
  std::string ReadUntil(const Holds& holds, const std::string& what) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (!holds(shown_)) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration() || !ReadSome(left)) {
        ADD_FAILURE() << "the terminal never showed " << what << " but\n" << shown_;
        break;
      }
    }
    return std::exchange(shown_, "");
  }

  void Type(const std::string& keys) {
    EXPECT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void Resize(int width, int height) {
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(width);
    size.ws_row = static_cast<unsigned short>(height);
    EXPECT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
  }
  void Signal(int signal) { kill(child_, signal); }
  // Hangs up, as when the window is closed.
  void HangUp() {
    if (slave_ >= 0) close(slave_);
    if (master_ >= 0) close(master_);
    master_ = slave_ = -1;
  }

  // Reads the rest and returns the program's exit code, or minus its signal.
  int End() {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    int status = 0;
    while (waitpid(child_, &status, WNOHANG) == 0) {
      if (absl::Now() > deadline) {
        ADD_FAILURE() << "the program does not end";
        return -SIGKILL;
      }
      if (master_ < 0 || !ReadSome(absl::Milliseconds(20))) absl::SleepFor(absl::Milliseconds(5));
    }
    while (master_ >= 0 && ReadSome(absl::ZeroDuration())) {
    }
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Text shown since the last ReadUntil.
  const std::string& shown() const { return shown_; }

  // Whether keys are echoed and read by lines again, as before the program.
  bool IsAsBefore() const {
    termios now = {};
    tcgetattr(slave_, &now);
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
           now.c_oflag == before_.c_oflag && now.c_cc[VSUSP] == before_.c_cc[VSUSP];
  }

 private:
  static std::vector<char*> Pointers(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  }
  // Returns false if nothing came.
  bool ReadSome(absl::Duration patience) {
    pollfd source = {master_, POLLIN, 0};
    if (poll(&source, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) <= 0) return false;
    char buffer[4096];
    const ssize_t got = read(master_, buffer, sizeof(buffer));
    if (got <= 0) return false;
    shown_.append(buffer, static_cast<size_t>(got));
    return true;
  }

  int master_ = -1;
  int slave_ = -1;  // Kept open, so that the terminal outlives the program.
  termios before_ = {};
  pid_t child_ = 0;
  std::string shown_;
};

}  // namespace paceline

#endif  // CLI_TESTING_PLAYED_TERMINAL_H_
