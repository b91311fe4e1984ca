#include "cli/verbs/program/python_module.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/dev/dev_cluster.h"

namespace paceline {
namespace {

// Python starts isolated (-I), so that no file of the user's folder is taken for a module. The
// first arguments are the folder of the package, and the module.
constexpr char kStart[] =
    "import importlib, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "sys.exit(importlib.import_module(sys.argv.pop(1)).run())";

// The folder that holds the package `paceline` with this module. NotFound if it is not installed.
absl::StatusOr<std::string> PackageFolder(const std::string& module) {
  const std::string programs = ProgramDir();
  // Built or installed from the sources; a wheel; Debian's packages. The folder above is looked at
  // only in a wheel: elsewhere, as above /tmp/x/bin, others might write there what would be run.
  const bool is_wheel = std::filesystem::path(programs).parent_path().filename() == "paceline";
  for (const char* place :
       {"/python", is_wheel ? "/../.." : "/python", "/../lib/paceline/python"}) {
    const std::string folder = absl::StrCat(programs, place);
    const std::string file = absl::StrCat(folder, "/paceline/", module, "/__main__.py");
    if (::access(file.c_str(), R_OK) == 0) return folder;
  }
  return absl::NotFoundError(
      absl::StrCat("Paceline's Python package is not beside ", programs,
                   "/paceline; install the wheel, or the package paceline-worker"));
}

// The active environment's, which has the libraries that the person uses.
std::string Interpreter(const Program& program) {
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = program.Variable(variable);
    const std::string python = absl::StrCat(folder, "/bin/python3");
    if (!folder.empty() && ::access(python.c_str(), X_OK) == 0) return python;
  }
  return "python3";
}

// Starts a program of PATH with our streams, and with no signal blocked, and waits for its end.
// Returns its exit code, or 128 + the signal that ended it.
absl::StatusOr<int> RunToItsEnd(std::vector<std::string> arguments) {
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  sigset_t none;
  sigset_t ours;
  sigemptyset(&none);
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &ours);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0], nullptr, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat("cannot start ", arguments[0], ": ", strerror(error),
                                            "; it needs Python 3.9 or newer, in PATH or an active "
                                            "environment"));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "waiting for Python");
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int RunPythonVerb(Program& program, const std::string& verb, const std::string& module,
                  const std::vector<std::string>& arguments) {
  if (program.flags.output == "yaml") {
    return program.Fail(
        kCliUsage, absl::StrCat("`paceline ", verb, "` has no --output yaml; json has the same"));
  }
  const absl::StatusOr<std::string> folder = PackageFolder(module);
  if (!folder.ok()) return program.Fail(folder.status());
  std::vector<std::string> command = {Interpreter(program),
                                      "-I",
                                      "-B",
                                      "-c",
                                      kStart,
                                      *folder,
                                      absl::StrCat("paceline.", module, ".__main__")};
  if (program.json()) command.insert(command.end(), {"--output", "json"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  program.out().flush();
  // Ctrl-C is the interpreter's, whose exit code says so.
  const Interrupt::Listener heard(program.interrupt(), [] {});
  const absl::StatusOr<int> exit = RunToItsEnd(std::move(command));
  return exit.ok() ? *exit : program.Fail(exit.status());
}

}  // namespace paceline
