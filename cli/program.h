// One run of `paceline`: where its text goes, what the global flags say, and the client that its
// verb uses. Each verb (cli/verbs) adds a subcommand that sets `action`.
//
// Thread-compatible; `Note` is thread-safe.
#ifndef CLI_PROGRAM_H_
#define CLI_PROGRAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cli/exit_codes.h"
#include "cli/rpc/client.h"
#include "cli/rpc/interrupt.h"
#include "cli/view/page.h"
#include "common/tls/tls_files.h"
#include "grpcpp/support/status.h"

namespace google::protobuf {
class Message;
}

namespace paceline {

struct CliContext;

// Environment of a run; tests have their own.
struct Surroundings {
  std::ostream& out;  // Data.
  std::ostream& err;  // Messages.
  bool out_is_terminal = false;
  int width = 0;  // Columns of the terminal; 0: unlimited.
  // Returns an environment variable; empty if it is not set.
  std::function<std::string(const char*)> variable;
  int height = 0;  // Rows of the terminal; 0: unlimited.
  // Returns the system's name of the account that runs this; unset or empty: it has none.
  std::function<std::string()> account = {};
};

struct GlobalFlags {
  std::string server;   // Empty: see Program::ChooseServer().
  std::string context;  // As for `server`.
  std::string output = "table";
  double timeout_s = 30;
  bool no_headers = false;
  bool no_color = false;
  bool quiet = false;
  std::string owner;       // For verbs that have it; empty: see Program::user().
  std::string tls_dir;     // Empty: see Program::ChooseServer().
  std::string token_file;  // As for `tls_dir`.
  bool plaintext = false;
};

// The server that requests go to.
struct ServerChoice {
  std::string address;  // HOST:PORT.
  std::string context;  // Context that it comes from; empty: none.
  // Files that identify server and user to each other; none: plain text. With a token: the
  // authority's certificate only.
  std::optional<TlsFiles> files = {};
  // File of the user's token; empty: none.
  std::string token_file = {};
  bool is_default = false;  // Nothing names a server, and no dev cluster is up.
};

class Program {
 public:
  Program(Surroundings surroundings, Interrupt& interrupt);

  GlobalFlags flags;
  // Set by the verb on the command line; returns the exit code.
  std::function<int()> action;

  std::ostream& out() { return surroundings_.out; }
  std::ostream& err() { return surroundings_.err; }
  bool out_is_terminal() const { return surroundings_.out_is_terminal; }
  // Whether text on the output can be overwritten.
  bool redraws() const { return out_is_terminal() && Variable("TERM") != "dumb"; }
  int width() const { return surroundings_.width; }
  int height() const { return surroundings_.height; }
  Interrupt& interrupt() { return interrupt_; }
  std::string Variable(const char* name) const { return surroundings_.variable(name); }

  // Whether the output is for programs: JSON, or the same as YAML.
  bool json() const { return flags.output == "json" || flags.output == "yaml"; }
  // Whether the output is only names, one per line, which other commands take.
  bool names() const { return flags.output == "name"; }
  // Colours are used on a terminal only, and not against the user's wish.
  PageStyle style() const;

  // Returns the server of --server or --context, else of $PACELINE_SERVER, $PACELINE_CONTEXT, the
  // current context of the configuration (cli/config), the dev cluster if it is up, or
  // 127.0.0.1:7450; 7450 is the default port. NotFound if there is no such context; errors of
  // ReadConfig. The identity is that of --tls-dir or --plaintext, else of the context, else plain
  // text for the dev cluster, else $PACELINE_TLS_DIR, or plain text if $PACELINE_PLAINTEXT is 1,
  // else the files of DefaultTlsDir. --token-file overrides the certificate of any of these, and
  // $PACELINE_TOKEN_FILE that of the last three.
  absl::StatusOr<ServerChoice> ChooseServer() const;
  // Its address, and "ADDRESS (context NAME)" for people; empty after an error. Fixed once there is
  // a client.
  std::string server() const;
  std::string ServerText() const;
  // A line for a watch that says that the controller is away.
  std::string OutageText() const;
  // Options of a client for that server, on behalf of the user.
  Client::Options ClientOptions() const;
  // Created at the first call. Without a server, each of its calls returns the reason.
  Client& client();
  std::string config_path() const;
  // User on whose behalf requests are made: --owner, else the name in the certificate used, else
  // $USER or $LOGNAME, else the owner of the user's token, which the controller is asked for once,
  // or without a token local_user(). Reads the certificate's files. Empty: call FailWithoutUser().
  std::string user();
  // $USER, else $LOGNAME, else the account's name; empty if there is none.
  std::string local_user() const;

  // Writes a line to the error stream, unless --quiet.
  void Note(const std::string& line) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the message as JSON (cli/text/message_json.h).
  static std::string JsonOf(const google::protobuf::Message& message);
  // Prints the message, as JSON or YAML.
  void PrintJson(const google::protobuf::Message& message);
  // Prints the message in a stream: as a line of JSON, or a YAML document.
  void PrintJsonLine(const google::protobuf::Message& message);
  // Prints JSON made elsewhere; it must be valid.
  void PrintJsonText(const std::string& json);

  // Prints the error; returns its exit code.
  int Fail(const grpc::Status& status);
  int Fail(const absl::Status& status);
  int Fail(CliExit exit, const std::string& message);
  // Prints why there is no user(); returns the exit code.
  int FailWithoutUser();

 private:
  // user() as far as it is known without asking the controller; else empty.
  std::string UserWithoutAsking() const;
  // $USER, else $LOGNAME.
  std::string UserOfEnvironment() const;
  // Empty: there is no token, or `token_status_` has the reason.
  std::string UserOfToken();
  // Makes the choice of a server, from the context `name` if that is not empty, with its identity.
  // `context` may be null.
  ServerChoice ChoiceOf(const std::string& server, const std::string& name,
                        const CliContext* context) const;

  const Surroundings surroundings_;
  Interrupt& interrupt_;
  std::unique_ptr<Client> client_;
  ServerChoice client_server_;             // The server that `client_` talks to.
  std::optional<std::string> token_user_;  // Unset: not asked yet.
  grpc::Status token_status_;
  absl::Mutex mutex_;  // Keeps lines on the error stream whole.
};

}  // namespace paceline

#endif  // CLI_PROGRAM_H_
