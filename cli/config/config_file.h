// The file in which people keep the controllers that they use, each under a name: a context.
//
//   current: prod
//   contexts:
//     prod:
//       server: "head.example.org:7450"
//       ca: /home/ann/prod/ca.pem
//       certificate: /home/ann/prod/cert.pem
//       key: /home/ann/prod/key.pem
//     lab:
//       server: "10.0.0.7"
//       ca: /home/ann/lab/ca.pem
//       token_file: /home/ann/lab/token
//     here: {server: "127.0.0.1", plaintext: true}
#ifndef CLI_CONFIG_CONFIG_FILE_H_
#define CLI_CONFIG_CONFIG_FILE_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct CliContext {
  std::string server;  // HOST or HOST:PORT; several are separated by commas.
  // Files that identify the user to it: the first three, `ca` and `token_file`, or none.
  std::string ca = {};
  std::string certificate = {};
  std::string key = {};
  std::string token_file = {};  // user_token.h.
  bool plaintext = false;       // Instead of files: plain text, to a server on this machine.
};

struct CliConfig {
  std::string current;  // Empty: a context is only used if it is named.
  std::map<std::string, CliContext> contexts;
};

// $PACELINE_CONFIG, else $XDG_CONFIG_HOME/paceline/config.yaml, else
// ~/.config/paceline/config.yaml; empty without a home. `variable` reads the environment.
std::string ConfigPath(const std::function<std::string(const char*)>& variable);

// Returns the folder of the user's identity if no context names one: "tls" beside the
// configuration; empty without a home.
std::string DefaultTlsDir(const std::function<std::string(const char*)>& variable);

// Returns an empty configuration if the file is missing. InvalidArgument, with line and column, if
// it cannot be parsed; PermissionDenied or FailedPrecondition if it cannot be read.
absl::StatusOr<CliConfig> ReadConfig(const std::string& path);
// The same for the file's contents; `path` is used in messages.
absl::StatusOr<CliConfig> ParseConfig(const std::string& text, const std::string& path);

// Replaces the file completely or not at all; creates its folder. Comments are lost. Follows a
// symbolic link. FailedPrecondition if `path` is empty or cannot be written; NotFound,
// PermissionDenied and ResourceExhausted as in AtomicFile.
absl::Status WriteConfig(const std::string& path, const CliConfig& config);

// InvalidArgument, with what is allowed, unless the text can be the name of a context (1 to 64
// letters, digits and . _ -, beginning with a letter or digit), or the addresses of one or more
// servers.
absl::Status CheckContextName(const std::string& name);
absl::Status CheckServerAddress(const std::string& servers);

// NotFound, with the nearest name and advice, if `config`, read from `path`, has no such context.
absl::StatusOr<CliContext> FindContext(const CliConfig& config, const std::string& name,
                                       const std::string& path);

}  // namespace paceline

#endif  // CLI_CONFIG_CONFIG_FILE_H_
