// paceline-controller: flags, signals, and the server's life.
#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/log_flags.h"
#include "common/log_options.h"
#include "common/version.h"
#include "controller/leadership.h"
#include "controller/own_identity.h"
#include "controller/queue_file.h"
#include "controller/server.h"

namespace paceline {
namespace {

// Exit codes of common/exit_codes.h.
constexpr char kFooter[] =
    "\nExit codes: 0 ended on request, 1 failure, 2 wrong usage, 10 cannot listen,\n"
    "11 state directory not writable, 12 state from a newer version, 13 state damaged,\n"
    "14 no disk space, 15 state directory in use, 16 another controller leads,\n"
    "18 no usable certificate.";

void AddStoreFlags(CLI::App& app, std::string& store, Leadership::Options& options) {
  app.add_option("--store", store,
                 "Where the state is: sqlite, in the state directory; or etcd, shared by several "
                 "controllers of which one leads (docs/ha.md)")
      ->check(CLI::IsMember({"sqlite", "etcd"}))
      ->default_val("sqlite");
  app.add_option("--etcd-endpoints", options.etcd.endpoints,
                 "Addresses of etcd's members, HOST:PORT, with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--etcd-prefix", options.prefix,
                 "What all keys in etcd begin with; another one for each cluster")
      ->capture_default_str();
  app.add_option("--etcd-tls-dir", options.etcd.tls_dir,
                 "Directory of ca.pem, cert.pem and key.pem for etcd. Without it: no TLS");
  app.add_option("--advertise", options.advertise,
                 "HOST:PORT under which workers and clients reach this controller when it leads. "
                 "Default: that of --listen");
  app.add_option_function<double>(
         "--lease", [&options](double seconds) { options.lease = absl::Seconds(seconds); },
         "Seconds after which another controller takes over from one that is silent")
      ->check(CLI::Range(2.0, 60.0))
      ->default_str("3");
}

// Does what it was last told to do when the process is asked to end: SIGTERM or SIGINT, which are
// blocked in all threads, as is SIGUSR1, which ends the waiting.
class EndSignal {
 public:
  explicit EndSignal(const sigset_t& signals) : thread_([this, signals] { Wait(signals); }) {}
  ~EndSignal() {
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  EndSignal(const EndSignal&) = delete;
  EndSignal& operator=(const EndSignal&) = delete;

  // At once if the signal has come before.
  void Then(std::function<void()> then) {
    absl::MutexLock lock(&mutex_);
    then_ = std::move(then);
    if (received_) then_();
  }

 private:
  void Wait(const sigset_t& signals) {
    int received = 0;
    sigwait(&signals, &received);
    if (received == SIGUSR1) return;
    absl::MutexLock lock(&mutex_);
    received_ = true;
    then_();
  }

  absl::Mutex mutex_;
  bool received_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> then_ ABSL_GUARDED_BY(mutex_) = [] {};
  std::thread thread_;  // Last: uses all the others.
};

// At once: whatever else this process did would be done beside another leader. It is started again
// as a standby.
void EndAsDeposed(const std::string& why) {
  PACELINE_LOG(ERROR) << "deposed reason=\"" << why << "\"";
  std::_Exit(kExitDeposed);
}

int Fail(const ServerFailure& failure) {
  std::fprintf(stderr, "paceline-controller: %s\n", std::string(failure.status.message()).c_str());
  return failure.exit_code;
}

// Serves until a signal comes. The signals are blocked in all threads.
int Serve(ServerOptions options, const std::string& store, Leadership::Options leading,
          const sigset_t& signals) {
  EndSignal end(signals);
  std::unique_ptr<Leadership> leadership;  // Outlives the server.
  Elected elected;
  if (store == "etcd") {
    const ServerFailure unknown = CheckIdentity(options);
    if (!unknown.status.ok()) return Fail(unknown);
    leading.credentials = GrpcCredentials(options);
    leading.http_tls = HttpTlsOf(options);
    leading.identity = IdentityFiles(options);
    leading.listen = options.listen;
    leading.http = options.http;
    leading.state_dir = options.state_dir;
    leading.address_file = options.address_file;
    leading.deposed = EndAsDeposed;
    leadership = std::make_unique<Leadership>(std::move(leading));
    const ServerFailure failed = leadership->Start();
    if (!failed.status.ok()) return Fail(failed);
    end.Then([&] { leadership->Stop(); });
    auto won = leadership->Wait();
    end.Then([] {});
    if (absl::IsCancelled(won.status())) return kExitOk;
    if (!won.ok()) return Fail({won.status(), StateExitCode(won.status())});
    elected = *std::move(won);
    options.listen = leadership->listen();
    options.http = leadership->http();
  }
  Server server(options);
  const ServerFailure failed = server.Start(std::move(elected));
  if (!failed.status.ok()) return Fail(failed);
  end.Then([&] { server.Shutdown(); });
  const ServerFailure ended = server.Run();
  end.Then([] {});
  return ended.status.ok() ? kExitOk : Fail(ended);
}

void AddTlsFlags(CLI::App& app, ServerOptions& options, double& worker_life_s) {
  app.add_option("--tls-dir", options.tls_dir,
                 "Directory of this controller's ca.pem, cert.pem and key.pem, which are looked at "
                 "again and again")
      ->default_val("/etc/paceline/tls");
  app.add_option(
      "--ca-dir", options.ca_dir,
      "Directory of the authority's ca.pem and ca.key. Without it no node can join here, "
      "or renew its certificate");
  app.add_option("--worker-certificate-life", worker_life_s,
                 "Seconds that a worker's certificate holds; it is renewed after two thirds")
      ->check(CLI::Range(1.0, 86400.0 * 90))
      ->capture_default_str();
  app.add_flag("--plaintext", options.plaintext,
               "Speak plain text, and believe everybody on this machine; for --listen and --http "
               "on the loopback only");
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
  double worker_life_s = absl::ToDoubleSeconds(options.worker_certificate_life);
  AddTlsFlags(app, options, worker_life_s);
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
  app.add_option("--user-tokens", options.user_tokens,
                 "File of users' tokens, a line `SHA-256 ROLE NAME` each, read again when it "
                 "changes (docs/operations.md). Without it: certificates only");
  app.add_option("--jobs-per-submitter", options.cluster.open_jobs_per_submitter,
                 "Jobs of one submitter that may wait and run at a time. 0: any number")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--mutation-rate", options.limits.mutations_per_s,
                 "Changes a second that each caller may ask for, after a burst of ten seconds' "
                 "worth. 0: any number")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  std::string store;
  Leadership::Options leading;
  AddStoreFlags(app, store, leading);
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
  options.worker_certificate_life = absl::Seconds(worker_life_s);
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

  return Serve(std::move(options), store, std::move(leading), signals);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
