// paceline: the terminal, the environment and Ctrl-C for the command line.
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "cli/command_line.h"

namespace paceline {
namespace {

// All 0 when the output is no terminal.
winsize TerminalSize() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// SIGINT and SIGTERM, told to `interrupt`. The second one, or one that nobody listens to,
// ends the process.
[[noreturn]] void WaitForSignals(const sigset_t& signals, Interrupt& interrupt) {
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    const bool first = !interrupt.raised();
    if (!interrupt.Raise() || !first) _exit(kCliInterrupted);
  }
}

int Main(int argc, char** argv) {
  // Blocked before any thread starts, so that all inherit it; one thread waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Ends quietly when nobody reads the output any more, also where the parent ignores the signal.
  signal(SIGPIPE, SIG_DFL);
  // Lives until the process ends, as does the thread that uses it.
  static Interrupt interrupt;
  std::thread([signals] { WaitForSignals(signals, interrupt); }).detach();

  const winsize size = TerminalSize();
  Program program(
      {std::cout, std::cerr, isatty(STDOUT_FILENO) != 0, size.ws_col, Variable, size.ws_row},
      interrupt);
  const int exit = RunCommandLine(program, std::vector<std::string>(argv + 1, argv + argc));
  std::cout.flush();
  // Without the destructors of what the signal thread still uses.
  _exit(exit);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
