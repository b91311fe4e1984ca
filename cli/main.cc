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

int TerminalWidth() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
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
  // Lives until the process ends, as does the thread that uses it.
  static Interrupt interrupt;
  std::thread([signals] { WaitForSignals(signals, interrupt); }).detach();

  const bool terminal = isatty(STDOUT_FILENO) != 0;
  Program program({std::cout, std::cerr, terminal, terminal ? TerminalWidth() : 0, Variable},
                  interrupt);
  const int exit = RunCommandLine(program, std::vector<std::string>(argv + 1, argv + argc));
  std::cout.flush();
  // Without the destructors of what the signal thread still uses.
  _exit(exit);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
