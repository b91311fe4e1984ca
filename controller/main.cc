// paceline-controller: flags, signals, and the server's life.
#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/exit_codes.h"
#include "common/log_flags.h"
#include "common/log_options.h"
#include "common/version.h"
#include "controller/queue_file.h"
#include "controller/server.h"

namespace paceline {
namespace {

// Exit codes of common/exit_codes.h.
constexpr char kFooter[] =
    "\nExit codes: 0 ended on request, 1 failure, 2 wrong usage, 10 cannot listen,\n"
    "11 state directory not writable, 12 state from a newer version, 13 state damaged,\n"
    "14 no disk space, 15 state directory in use.";

int Fail(const ServerFailure& failure) {
  std::fprintf(stderr, "paceline-controller: %s\n", std::string(failure.status.message()).c_str());
  return failure.exit_code;
}

int Main(int argc, char** argv) {
  ServerOptions options;
  CLI::App app("Schedules training jobs onto worker nodes and watches over them.",
               "paceline-controller");
  app.footer(kFooter);
  app.set_version_flag("--version", kVersion);
  app.set_config("--config", "", "Read flags from this file: one `flag=value` a line");
  app.add_option("--listen", options.listen,
                 "Address for gRPC: workers and clients. HOST:PORT, port 0: any")
      ->default_val("127.0.0.1:7450");
  app.add_option("--http", options.http,
                 "Address for /metrics, /healthz, /readyz and /sd. HOST:PORT, port 0: any")
      ->default_val("127.0.0.1:7451");
  app.add_option("--state-dir", options.state_dir,
                 "Directory of the state store; not on a network file system")
      ->default_val("/var/lib/paceline/controller");
  app.add_option("--address-file", options.address_file,
                 "Write {\"pid\",\"grpc\",\"http\"} to this file once serving");
  double node_lease_s = 60;
  app.add_option("--node-lease", node_lease_s,
                 "Seconds after the last report until a node that does not answer counts as LOST, "
                 "and its trainers have ended by themselves. 0: never")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--max-out-share", options.cluster.max_out_share,
                 "Share of the nodes that may be drained by the automation, unreachable or lost "
                 "before the automation pauses itself")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  std::string queues;
  app.add_option("--queues", queues,
                 "YAML file of the queues that jobs wait in, with their priorities and quotas "
                 "(docs/scheduling.md). Without it: one queue, default");
  app.add_option(
      "--audit-log", options.audit_log,
      "File of the audit record, a line of JSON for each request that asks for a change. "
      "Default: audit.jsonl in the state directory");
  app.add_option("--mutation-rate", options.limits.mutations_per_s,
                 "Changes a second that each caller may ask for, after a burst of ten seconds' "
                 "worth. 0: any number")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  LogFlags log;
  AddLogFlags(app, log);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }

  ApplyLogFlags(log, "controller");
  options.limits.mutation_burst = 10 * options.limits.mutations_per_s;
  options.cluster.node_lease = absl::Seconds(node_lease_s);
  if (!queues.empty()) {
    absl::StatusOr<Queues> read = ReadQueueFile(queues);
    if (!read.ok()) return Fail({read.status(), kExitUsage});
    options.cluster.queues = *std::move(read);
  }

  // Blocked before any thread starts, so that all inherit it; one thread waits for them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  Server server(options);
  const ServerFailure failed = server.Start();
  if (!failed.status.ok()) return Fail(failed);

  std::thread waiter([&] {
    int received = 0;
    sigwait(&signals, &received);
    // SIGUSR1 only ends this thread.
    if (received != SIGUSR1) server.Shutdown();
  });
  const ServerFailure ended = server.Run();
  pthread_kill(waiter.native_handle(), SIGUSR1);
  waiter.join();
  return ended.status.ok() ? kExitOk : Fail(ended);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
