#include "worker/daemon/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/host_port.h"
#include "common/core/loopback.h"
#include "common/core/object_url.h"
#include "common/leader_address.h"
#include "common/log_flags.h"
#include "common/open_files.h"
#include "common/parse_flags.h"
#include "common/version.h"
#include "worker/shim/allowed_roots.h"

namespace paceline {
namespace {

constexpr char kFooter[] =
    "\nSIGTERM ends the daemon; its trainers run on and are adopted by the next one.\n"
    "Exit codes: 0 ended on request, 1 failure, 2 wrong usage, 10 cannot listen,\n"
    "11 state directory not writable, 12 state from a newer version, 13 state damaged,\n"
    "14 no disk space, 15 state directory in use, 18 no usable certificate.";

void AddNodeFlags(CLI::App& app, Flags& flags) {
  app.add_option("--controller", flags.controller,
                 "Controller's gRPC address, HOST:PORT; those of several that stand by for each "
                 "other with commas between them")
      ->required();
  app.add_option("--name", flags.name, "Name of this node, unique in the cluster [the host name]");
  app.add_option("--slots", flags.slots, "CPU ranks that this node takes [its logical processors]")
      ->check(CLI::Range(1, 65536));
  app.add_option("--label", flags.labels, "key=value, shown with the node; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--address", flags.address,
                 "Host under which trainers of other nodes reach this one [127.0.0.1 if the "
                 "controller is on this machine, else the host name]");
  app.add_option("--interface", flags.interface,
                 "Network interface or address of the trainers' collectives [--address if that "
                 "is 127.0.0.1, else found by the host name]");
  app.add_option("--listen", flags.listen,
                 "Address for /metrics, /healthz, /readyz. HOST:PORT, port 0: any")
      ->capture_default_str();
  app.add_option("--address-file", flags.address_file,
                 "Write {\"pid\",\"grpc\",\"http\"} to this file once serving");
}

void AddTlsFlags(CLI::App& app, Flags& flags) {
  app.add_option("--tls-dir", flags.tls_dir,
                 "Directory of this node's ca.pem, cert.pem and key.pem, which are renewed there "
                 "[tls in --state-dir]");
  app.add_option(
      "--join-token-file", flags.join_token_file,
      "File with a token of `paceline pki token`, by which the node gets its certificate");
  app.add_option("--ca", flags.ca,
                 "Certificate of the cluster's authority, for the join [ca.pem in --tls-dir]");
  app.add_flag("--plaintext", flags.plaintext,
               "Speak plain text with a controller on this machine, and prove nothing");
}

void AddTrainerFlags(CLI::App& app, Flags& flags) {
  app.add_option("--state-dir", flags.state_dir, "Directory of the node's state and the logs")
      ->capture_default_str();
  app.add_option("--runtime-dir", flags.runtime_dir,
                 "Directory of the socket and the step rings, on a memory file system; at most "
                 "95 bytes long [/dev/shm/paceline-ID]");
  app.add_option("--trainer", flags.trainer,
                 "Trainer program for CPU ranks [paceline-trainer beside this program]");
  app.add_option("--trainer-cuda", flags.trainer_cuda,
                 "Trainer program for CUDA ranks [paceline-trainer-cuda beside this program]");
  app.add_option("--shim", flags.shim,
                 "Parent program of the trainers [paceline-shim beside this program]");
  app.add_option("--watch-dir", flags.watch_dir,
                 "Directory of the Python code that watches the steps of commands "
                 "[python/paceline/site beside this program, or ../site, if it is there]");
  app.add_option("--probe", flags.probe,
                 "Program that measures this node [paceline-probe beside this program]");
  app.add_option(
         "--probe-port", flags.probe_port,
         "Port at which the programs of other nodes measure the network to this one; 0: any")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--orphan-timeout", flags.orphan_timeout_s,
                 "Seconds without a daemon after which a trainer ends itself")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--log-segment-bytes", flags.log_segment_bytes, "Bytes of a full log segment")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--log-segments", flags.log_segments, "Log segments kept per trainer")
      ->capture_default_str()
      ->check(CLI::Range(2, 8192));
}

void AddConfinementFlags(CLI::App& app, Flags& flags) {
  app.add_option("--run-as", flags.run_as,
                 "USER or USER:GROUP that trainers run as; needs root, or its capabilities "
                 "[as this process]");
  app.add_option(
         "--commands", flags.commands,
         "Whether jobs may bring programs of their own (on, off) [on, unless they would run "
         "as root]")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_flag("--pass-environment", flags.pass_environment,
               "Commands get all of this process's environment, not only what trainers get");
  app.add_option("--allowed-root", flags.allowed_roots,
                 "Directory in which the files of jobs lie, links followed; may be repeated "
                 "[jobs may name any path]")
      ->allow_extra_args(false);
  app.add_option("--limit-nofile", flags.limit_nofile, "Open files of a trainer [as this process]")
      ->check(CLI::Range(uint64_t{kMinOpenFiles}, uint64_t{1} << 30));
  app.add_option("--limit-core", flags.limit_core,
                 "Bytes of a trainer's core file; 0: none [as this process]");
  app.add_option("--limit-memory", flags.limit_memory,
                 "Bytes of private memory of a trainer on the host, without what it shares and "
                 "without the memory of GPUs [as this process]")
      ->check(CLI::Range(uint64_t{64} << 20, uint64_t{1} << 60));
  app.add_option("--limit-processes", flags.limit_processes,
                 "Processes and threads of the trainers' user, all trainers together "
                 "[as this process]")
      ->check(CLI::Range(uint64_t{16}, uint64_t{1} << 30));
}

void AddObjectFlags(CLI::App& app, Flags& flags) {
  app.add_option("--object-store", flags.object_stores,
                 "Beginning of the addresses of objects that jobs may read as data: s3://BUCKET, "
                 "gs://BUCKET/FOLDER/, https://HOST, s3:// for all buckets; may be repeated [none]")
      ->allow_extra_args(false);
  app.add_option("--object-cache", flags.object_cache,
                 "Directory in which trainers keep blocks of objects [objects in --state-dir]");
  app.add_option("--object-cache-bytes", flags.object_cache_bytes,
                 "Most bytes of these blocks; 0: none are kept")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

absl::Status CheckObjectStores(const Flags& flags) {
  for (const std::string& prefix : flags.object_stores) {
    const absl::Status status = CheckUrlPrefix(prefix);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--object-store: \"", prefix, "\" ", status.message()));
  }
  if (flags.object_cache.empty() || IsPlainPath(flags.object_cache)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--object-cache: \"", flags.object_cache,
                                                 "\" is no absolute path without \"..\""));
}

absl::Status CheckAllowedRoots(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    if (IsPlainPath(root)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--allowed-root: \"", root, "\" is no absolute path without \"..\""));
  }
  return absl::OkStatus();
}

absl::Status CheckHostPort(absl::string_view flag, const std::string& value) {
  const absl::StatusOr<HostPort> at = ParseHostPort(value);
  if (at.ok() && !at->host.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": \"", value,
      "\" is no address; write HOST:PORT, and an IPv6 address in brackets, as in [::1]:7450"));
}

void SetIfEmpty(std::string value, std::string& flag) {
  if (flag.empty()) flag = std::move(value);
}

}  // namespace

std::optional<int> ParseFlags(int argc, const char* const* argv, Flags& flags) {
  CLI::App app("Runs the trainers of one node for a Paceline controller.", "paceline-worker");
  app.footer(kFooter);
  app.set_version_flag("--version", kVersion);
  app.set_config("--config", "", "Read flags from this file: one `flag=value` a line");
  AddNodeFlags(app, flags);
  AddTlsFlags(app, flags);
  AddTrainerFlags(app, flags);
  AddConfinementFlags(app, flags);
  AddObjectFlags(app, flags);
  AddLogFlags(app, flags.log);
  return ParseOrExit(app, argc, argv);
}

absl::Status FillDefaults(int cpus, const std::string& host_name, const std::string& program_dir,
                          Flags& flags) {
  absl::Status status = CheckHostPort("--listen", flags.listen);
  if (!status.ok()) return status;
  std::vector<std::string> controllers = SplitAddresses(flags.controller);
  if (controllers.empty()) controllers.push_back(flags.controller);
  for (const std::string& controller : controllers) {
    status = CheckHostPort("--controller", controller);
    if (!status.ok()) return status;
  }
  if (absl::Status status = CheckAllowedRoots(flags.allowed_roots); !status.ok()) return status;
  if (absl::Status status = CheckObjectStores(flags); !status.ok()) return status;
  const bool here = std::all_of(controllers.begin(), controllers.end(),
                                [](const std::string& one) { return IsLoopback(one); });
  if (flags.plaintext && !(here && IsLoopback(flags.listen))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--plaintext is for a controller on this machine, and metrics on 127.0.0.1: --controller ",
        flags.controller, " or --listen ", flags.listen,
        " is reached over a network; leave it out, and give certificates with --tls-dir"));
  }
  SetIfEmpty(absl::StrCat(flags.state_dir, "/tls"), flags.tls_dir);
  SetIfEmpty(absl::StrCat(flags.state_dir, "/objects"), flags.object_cache);
  SetIfEmpty(absl::StrCat(flags.tls_dir, "/ca.pem"), flags.ca);
  SetIfEmpty(host_name, flags.name);
  if (flags.slots == 0) flags.slots = cpus;
  // Follow the first controller's IP version, so that an IPv6-only machine works.
  const bool ipv6 = absl::StartsWith(controllers.front(), "[");
  SetIfEmpty(!here ? host_name : ipv6 ? "::1" : "127.0.0.1", flags.address);
  // Accept an address in brackets, as it is written in other flags.
  if (absl::StartsWith(flags.address, "[") && absl::EndsWith(flags.address, "]")) {
    flags.address = flags.address.substr(1, flags.address.size() - 2);
  }
  if (flags.address == "127.0.0.1" || flags.address == "::1") {
    SetIfEmpty(flags.address, flags.interface);
  }
  SetIfEmpty(absl::StrCat(program_dir, "/paceline-trainer"), flags.trainer);
  SetIfEmpty(absl::StrCat(program_dir, "/paceline-trainer-cuda"), flags.trainer_cuda);
  SetIfEmpty(absl::StrCat(program_dir, "/paceline-shim"), flags.shim);
  SetIfEmpty(absl::StrCat(program_dir, "/paceline-probe"), flags.probe);
  // A wheel has the folder at the second path.
  for (const char* place : {"/python/paceline/site", "/../site"}) {
    const std::string watch = absl::StrCat(program_dir, place);
    if (::access(absl::StrCat(watch, "/sitecustomize.py").c_str(), F_OK) == 0) {
      SetIfEmpty(watch, flags.watch_dir);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& labels) {
  std::map<std::string, std::string> by_key;
  for (const std::string& label : labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label: \"", label, "\" is no label; write key=value"));
    }
    by_key[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return by_key;
}

std::string Advertised(const std::string& served, const std::string& host) {
  const absl::StatusOr<HostPort> at = ParseHostPort(served);
  return at.ok() && IsEveryInterface(served) ? JoinHostPort(host, at->port) : served;
}

}  // namespace paceline
