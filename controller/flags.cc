#include "controller/flags.h"

#include <CLI/CLI.hpp>

#include "absl/time/time.h"
#include "common/log_flags.h"
#include "common/parse_flags.h"
#include "common/version.h"

namespace paceline {
namespace {

// The exit codes are those of common/exit_codes.h.
constexpr char kFooter[] =
    "\nExit codes: 0 ended on request, 1 failure, 2 wrong usage, 10 cannot listen,\n"
    "11 state directory not writable, 12 state from a newer version, 13 state damaged,\n"
    "14 no disk space, 15 state directory in use, 16 another controller leads,\n"
    "18 no usable certificate.";

void AddAddressFlags(CLI::App& app, ServerOptions& options) {
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

void AddClusterFlags(CLI::App& app, Cluster::Options& options, double& node_lease_s,
                     std::string& queues) {
  app.add_option("--node-lease", node_lease_s,
                 "Seconds after the last report until a node that does not answer counts as LOST, "
                 "and its trainers have ended by themselves. 0: never")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--max-out-share", options.max_out_share,
                 "Share of the nodes that may be drained by the automation, unreachable or lost "
                 "before the automation pauses itself")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--queues", queues,
                 "YAML file of the queues that jobs wait in, with their priorities and quotas "
                 "(docs/scheduling.md). Without it: one queue, default");
}

void AddCallerFlags(CLI::App& app, ServerOptions& options) {
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
  app.add_option("--call-rate", options.limits.calls_per_s,
                 "Calls of any kind a second that each caller may make over TLS, after a burst of "
                 "ten seconds' worth. 0: any number")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--mutation-rate", options.limits.mutations_per_s,
                 "Changes a second that each caller may ask for, after a burst of ten seconds' "
                 "worth. 0: any number")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
}

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
         "Seconds after which another controller takes over from one that is unreachable")
      ->check(CLI::Range(2.0, 60.0))
      ->default_str("3");
}

}  // namespace

std::optional<int> ParseFlags(int argc, const char* const* argv, ControllerFlags& flags) {
  CLI::App app("Schedules training jobs onto worker nodes and watches over them.",
               "paceline-controller");
  app.footer(kFooter);
  app.set_version_flag("--version", kVersion);
  app.set_config("--config", "", "Read flags from this file: one `flag=value` a line");
  ServerOptions& server = flags.server;
  double worker_life_s = absl::ToDoubleSeconds(server.worker_certificate_life);
  double node_lease_s = 60;
  AddAddressFlags(app, server);
  AddTlsFlags(app, server, worker_life_s);
  AddClusterFlags(app, server.cluster, node_lease_s, flags.queues);
  AddCallerFlags(app, server);
  AddStoreFlags(app, flags.store, flags.leading);
  AddLogFlags(app, flags.log);
  if (const auto exit = ParseOrExit(app, argc, argv); exit.has_value()) return exit;
  server.worker_certificate_life = absl::Seconds(worker_life_s);
  server.cluster.node_lease = absl::Seconds(node_lease_s);
  server.limits.call_burst = 10 * server.limits.calls_per_s;
  server.limits.mutation_burst = 10 * server.limits.mutations_per_s;
  return std::nullopt;
}

}  // namespace paceline
