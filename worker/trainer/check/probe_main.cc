// paceline-probe: measures its host in less than 20 seconds. Writes each result at once to standard
// output, as a line of JSON (measurement.h).
//
//   paceline-probe --dir DIR [--peer HOST:PORT] [--quick]
//
// Runs with low priority and at most two threads, since trainers may run beside it. DIR is on the
// disk to measure. --peer measures the network to another node, whose daemon runs a PairServer.
// --quick measures less exactly.
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/exit_codes.h"
#include "common/parse_flags.h"
#include "worker/nvml/nvml.h"
#include "worker/trainer/check/gpu_check.h"
#include "worker/trainer/check/host_check.h"
#include "worker/trainer/check/pair_check.h"
#include "worker/trainer/check/torch_check.h"

namespace paceline {
namespace {

constexpr int kNice = 10;
constexpr int kThreads = 2;
constexpr absl::Duration kPeerPatience = absl::Seconds(4);

struct Flags {
  std::string dir;
  std::string peer;
  int loopback = 0;
  bool quick = false;
};

void Tell(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Tell(const absl::StatusOr<std::vector<Measurement>>& measured) {
  if (!measured.ok()) return Tell(ErrorToJson(std::string(measured.status().message())));
  for (const Measurement& measurement : *measured) Tell(ToJson(measurement));
}

// Starts the other process of the loopback measurement, which ends with this one.
absl::Status StartOther(const char* program, int port) {
  std::string flag = absl::StrCat("--loopback=", port);
  std::string name = program;
  char* const arguments[] = {name.data(), flag.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ);
  if (error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, "loopback not measured: cannot start the other process");
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Measures this host and tells what it finds as lines of JSON", "paceline-probe");
  app.add_option("--dir", flags.dir, "Directory on the disk to measure");
  app.add_option("--peer", flags.peer, "host:port at which another node lets itself be measured");
  app.add_option("--loopback", flags.loopback)->group("");
  app.add_flag("--quick", flags.quick, "Measure less exactly");
  if (const auto exit = ParseOrExit(app, argc, argv); exit.has_value()) return *exit;
  ::setpriority(PRIO_PROCESS, 0, kNice);
  if (flags.loopback > 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return CheckLoopbackAsOther(flags.loopback).ok() ? kExitOk : kExitFailure;
  }
  if (flags.dir.empty()) {
    std::fprintf(stderr, "paceline-probe: --dir is required; name a directory on the disk\n");
    return kExitUsage;
  }

  if (!flags.peer.empty()) Tell(CheckPair(flags.peer, kPeerPatience));
  Tell(CheckGemm(flags.quick ? 256 : 1024, kThreads, absl::Seconds(flags.quick ? 0.1 : 1.5)));
  Tell(CheckMemory(flags.quick ? kCheckBytes / 16 : kCheckBytes));
  Tell(CheckLoopback([&](int port) { return StartOther(argv[0], port); }));
  Tell(CheckDisk(flags.dir, flags.quick ? kCheckBytes / 16 : kCheckBytes));
  if (const std::unique_ptr<Nvml> nvml = Nvml::Open()) {
    Tell(CheckGpus(*nvml));
    Tell(CheckXids());
  }
  while (::wait(nullptr) > 0) {
  }
  return kExitOk;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
