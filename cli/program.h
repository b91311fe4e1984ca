// One run of `paceline`: where its text goes, what the global flags say, and the client
// that its verb uses. Each verb (cli/verbs) adds a subcommand that sets `action`.
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

// The world around a run; a test has its own.
struct Surroundings {
  std::ostream& out;  // Data.
  std::ostream& err;  // Messages.
  bool out_is_terminal = false;
  int width = 0;  // Columns of the terminal; 0: unlimited.
  // Value of an environment variable; empty when it is not set.
  std::function<std::string(const char*)> variable;
  int height = 0;  // Rows of the terminal; 0: unlimited.
  // Name of the account that runs this, as the system has it; unset, or empty: it has none.
  std::function<std::string()> account = {};
};

struct GlobalFlags {
  std::string server;   // Empty: see Program::ChooseServer().
  std::string context;  // The same.
  std::string output = "table";
  double timeout_s = 30;
  bool no_headers = false;
  bool no_color = false;
  bool quiet = false;
  std::string owner;       // Of the verbs that have it; empty: see Program::user().
  std::string tls_dir;     // Empty: see Program::ChooseServer().
  std::string token_file;  // The same.
  bool plaintext = false;
};

// Where requests go.
struct ServerChoice {
  std::string address;  // HOST:PORT.
  std::string context;  // That it comes from; empty: from elsewhere.
  // By what the two know each other; none: plain text. With a token: the authority alone.
  std::optional<TlsFiles> files = {};
  // Of the token by which the controller knows who asks; empty: there is none.
  std::string token_file = {};
  bool is_default = false;  // Nothing names it, and no dev cluster is up.
};

class Program {
 public:
  Program(Surroundings surroundings, Interrupt& interrupt);

  GlobalFlags flags;
  // Set by the verb that was named; returns the exit code.
  std::function<int()> action;

  std::ostream& out() { return surroundings_.out; }
  std::ostream& err() { return surroundings_.err; }
  bool out_is_terminal() const { return surroundings_.out_is_terminal; }
  // Whether text on the output can be replaced in place.
  bool redraws() const { return out_is_terminal() && Variable("TERM") != "dumb"; }
  int width() const { return surroundings_.width; }
  int height() const { return surroundings_.height; }
  Interrupt& interrupt() { return interrupt_; }
  std::string Variable(const char* name) const { return surroundings_.variable(name); }

  // The output is for programs: JSON, or the same as YAML.
  bool json() const { return flags.output == "json" || flags.output == "yaml"; }
  // The output is names alone, one a line, that other commands take.
  bool names() const { return flags.output == "name"; }
  // Colours only on a terminal, and not against the user's wish.
  PageStyle style() const;

  // What --server or --context names, else $PACELINE_SERVER, $PACELINE_CONTEXT, the current context
  // of the configuration (cli/config), the dev cluster when it is up, or 127.0.0.1:7450; with port
  // 7450 when it has none. NotFound when there is no such context; errors of ReadConfig.
  // The identity is what --tls-dir or --plaintext says, else the context, else plain text for the
  // dev cluster, else $PACELINE_TLS_DIR, or plain text if $PACELINE_PLAINTEXT is 1, else the files
  // of DefaultTlsDir. --token-file goes before the certificate of any of them, and
  // $PACELINE_TOKEN_FILE before that of the last three.
  absl::StatusOr<ServerChoice> ChooseServer() const;
  // Its address, and "ADDRESS (context NAME)" for people; empty after an error. Settled once there
  // is a client.
  std::string server() const;
  std::string ServerText() const;
  // A line about a watch whose controller is away.
  std::string OutageText() const;
  // Of a client for that server, as the user.
  Client::Options ClientOptions() const;
  // Made at the first call. Without a server, each of its calls tells why there is none.
  Client& client();
  std::string config_path() const;
  // In whose name requests are made: --owner, else the name in the certificate that is used, else
  // $USER or $LOGNAME, else whom the controller takes the user's token for, which is asked once, or
  // without a token local_user(). Reads the certificate's files. Empty: FailWithoutUser().
  std::string user();
  // $USER, else $LOGNAME, else the account's name; empty if there is none.
  std::string local_user() const;

  // A line on the error stream, unless --quiet.
  void Note(const std::string& line) ABSL_LOCKS_EXCLUDED(mutex_);
  // The message as JSON (cli/text/message_json.h).
  static std::string JsonOf(const google::protobuf::Message& message);
  // The same on the output, as JSON or YAML.
  void PrintJson(const google::protobuf::Message& message);
  // The same for streams: a line of JSON, or a YAML document.
  void PrintJsonLine(const google::protobuf::Message& message);
  // JSON made elsewhere; must be valid.
  void PrintJsonText(const std::string& json);

  // Tells the error; returns its exit code.
  int Fail(const grpc::Status& status);
  int Fail(const absl::Status& status);
  int Fail(CliExit exit, const std::string& message);
  // Tells why there is no user(); returns the exit code.
  int FailWithoutUser();

 private:
  // user() as far as nobody has to be asked; or empty.
  std::string UserWithoutAsking() const;
  // $USER, else $LOGNAME.
  std::string UserOfEnvironment() const;
  // Empty: there is no token, or `token_status_` says why.
  std::string UserOfToken();
  // The server, by the name of its context or without, and by what it and the caller know each
  // other. `context` may be null.
  ServerChoice ChoiceOf(const std::string& server, const std::string& name,
                        const CliContext* context) const;

  const Surroundings surroundings_;
  Interrupt& interrupt_;
  std::unique_ptr<Client> client_;
  ServerChoice client_server_;             // The server that `client_` speaks to.
  std::optional<std::string> token_user_;  // Unset: not asked.
  grpc::Status token_status_;
  absl::Mutex mutex_;  // Orders lines of the error stream.
};

}  // namespace paceline

#endif  // CLI_PROGRAM_H_
