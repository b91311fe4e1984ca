// The flags of paceline-worker.
#ifndef WORKER_DAEMON_FLAGS_H_
#define WORKER_DAEMON_FLAGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/log_options.h"

namespace paceline {

struct Flags {
  std::string controller;
  std::string tls_dir;          // Empty: the folder tls in state_dir.
  std::string join_token_file;  // Empty: the node has a certificate.
  std::string ca;               // Authority certificate for joining; empty: ca.pem in tls_dir.
  bool plaintext = false;
  std::string name;
  std::string state_dir = "/var/lib/paceline/worker";
  std::string runtime_dir;  // Empty: made from the node's uid.
  int slots = 0;
  std::vector<std::string> labels;  // "key=value"
  std::string listen = "127.0.0.1:0";
  std::string address;
  std::string interface;
  std::string trainer;
  std::string trainer_cuda;
  std::string shim;
  std::string probe;
  int probe_port = 0;
  double orphan_timeout_s = 600;
  std::string run_as;  // "USER" or "USER:GROUP"; empty: this process's user.
  std::vector<std::string> allowed_roots;
  std::vector<std::string> object_stores;  // Prefixes of objects that jobs may read.
  std::string object_cache;                // Empty: the folder objects in state_dir.
  int64_t object_cache_bytes = 20LL << 30;
  // Limit of each trainer; unset: this process's limit.
  std::optional<uint64_t> limit_nofile;
  std::optional<uint64_t> limit_core;
  std::optional<uint64_t> limit_memory;
  std::optional<uint64_t> limit_processes;
  std::string commands;  // "on", "off", or empty: on unless they would run as root.
  bool pass_environment = false;
  std::string watch_dir;  // Empty: the folder beside the programs, if it exists.
  int64_t log_segment_bytes = 8 << 20;
  int log_segments = 8;
  std::string address_file;
  LogFlags log;
};

// Reads the command line and the file that it names. Returns an exit code when the process must
// exit: after --help or --version, or after wrong usage, which was reported on stderr.
std::optional<int> ParseFlags(int argc, const char* const* argv, Flags& flags);

// Fills in defaults that depend on the machine. `program_dir` is the folder of the executable,
// where the other programs are too. InvalidArgument for an impossible value.
absl::Status FillDefaults(int cpus, const std::string& host_name, const std::string& program_dir,
                          Flags& flags);

// Parses "key=value" entries into a map. InvalidArgument for any other entry.
absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& labels);

// Returns `served` ("host:port") as other machines reach it: a wildcard host is replaced by `host`.
std::string Advertised(const std::string& served, const std::string& host);

}  // namespace paceline

#endif  // WORKER_DAEMON_FLAGS_H_
