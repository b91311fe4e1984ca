// The file in which a person keeps the controllers that they use, each under a name: a context.
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
  std::string server;  // HOST or HOST:PORT; several with commas between them.
  // Files by which this person is known there: the first three, `ca` and `token_file`, or none.
  std::string ca = {};
  std::string certificate = {};
  std::string key = {};
  std::string token_file = {};  // user_token.h.
  bool plaintext = false;       // Without them: plain text, to a server on this machine.
};

struct CliConfig {
  std::string current;  // Empty: no context is used unless it is named.
  std::map<std::string, CliContext> contexts;
};

// $PACELINE_CONFIG, else $XDG_CONFIG_HOME/paceline/config.yaml, else
// ~/.config/paceline/config.yaml; empty without a home. `variable` reads the environment.
std::string ConfigPath(const std::function<std::string(const char*)>& variable);

// Where the files of a person's identity are that no context names: the folder "tls" beside the
// configuration; empty without a home.
std::string DefaultTlsDir(const std::function<std::string(const char*)>& variable);

// An empty configuration when there is no such file. InvalidArgument, with line and column, when it
// cannot be understood; PermissionDenied or FailedPrecondition when it cannot be read.
absl::StatusOr<CliConfig> ReadConfig(const std::string& path);
// The same of the file's contents; `path` is for what is said of it.
absl::StatusOr<CliConfig> ParseConfig(const std::string& text, const std::string& path);

// Whole or not at all; makes the folder. What the file had besides (comments) is not kept. A
// symbolic link stays one, its target is written. FailedPrecondition when `path` is empty or cannot
// be written; NotFound, PermissionDenied and ResourceExhausted as of AtomicFile.
absl::Status WriteConfig(const std::string& path, const CliConfig& config);

// InvalidArgument, saying what is allowed, unless it can be the name of a context (1 to 64 letters,
// digits and . _ -, beginning with a letter or digit) or the address of a server, or of several.
absl::Status CheckContextName(const std::string& name);
absl::Status CheckServerAddress(const std::string& servers);

// NotFound, with the nearest name and what to do, when `config`, which was read from `path`, has no
// such context.
absl::StatusOr<CliContext> FindContext(const CliConfig& config, const std::string& name,
                                       const std::string& path);

}  // namespace paceline

#endif  // CLI_CONFIG_CONFIG_FILE_H_
