#include "cli/program.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/config/config_file.h"
#include "cli/config/user_token.h"
#include "cli/dev/dev_dir.h"
#include "cli/rpc/error_text.h"
#include "cli/rpc/known_names.h"
#include "cli/text/message_json.h"
#include "cli/text/yaml_text.h"
#include "common/core/host_port.h"
#include "common/core/loopback.h"
#include "common/core/status_macros.h"
#include "common/identity/principal.h"
#include "common/leader_address.h"
#include "common/tls/credentials.h"
#include "common/tls/handshake_probe.h"
#include "proto/identity.pb.h"

namespace paceline {
namespace {

constexpr char kDefaultServer[] = "127.0.0.1:7450";
constexpr int kDefaultPort = 7450;

// As CheckIdentity, for a user with a token. The token itself is read at each call.
absl::Status CheckTokenIdentity(const ServerChoice& choice) {
  if (!choice.files.has_value()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the token of ", choice.token_file,
                     " is not sent in plain text, which is what ", choice.address,
                     " is asked in: whoever listens would have it. Name the folder of the "
                     "cluster's ca.pem with --tls-dir, or leave the token out"));
  }
  const absl::Status authority = CheckAuthorityFile(choice.files->ca);
  if (authority.ok()) return authority;
  return absl::PermissionDeniedError(absl::StrCat(
      authority.message(),
      ": a token is sent to nobody but a controller of the authority whose certificate this is; an "
      "admin gives it to you, and --tls-dir names its folder"));
}

// PermissionDenied, with the reason why the choice cannot be used.
absl::Status CheckIdentity(const ServerChoice& choice) {
  if (!choice.token_file.empty()) return CheckTokenIdentity(choice);
  if (!choice.files.has_value()) {
    if (IsLoopback(choice.address)) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("plain text is for controllers on this machine, and ", choice.address,
                     " is reached over a network, where anybody can listen and answer: give "
                     "certificates with --tls-dir"));
  }
  const absl::StatusOr<Certificate> own = CheckTlsFiles(*choice.files, absl::Now());
  if (own.ok()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      own.status().message(), absl::IsNotFound(own.status())
                                  ? "; --tls-dir names another folder, --token-file the token of "
                                    "who has no certificate, --plaintext speaks with a "
                                    "controller on this machine "
                                    "that has none, and `paceline dev up` starts such a cluster"
                                  : ""));
}

// Name in the certificate; empty: there is none (plain text, or files that cannot be used).
std::string CertifiedName(const absl::StatusOr<ServerChoice>& choice) {
  if (!choice.ok() || !choice->files.has_value()) return "";
  const absl::StatusOr<Certificate> own = CheckTlsFiles(*choice->files, absl::Now());
  return own.ok() ? own->principal.name : "";
}

// Adds the default port to one or more addresses.
std::string WithPorts(const std::string& server) {
  std::vector<std::string> addresses = SplitAddresses(server);
  for (std::string& address : addresses) address = WithPort(address, kDefaultPort);
  return addresses.empty() ? server : absl::StrJoin(addresses, ",");
}

}  // namespace

Program::Program(Surroundings surroundings, Interrupt& interrupt)
    : surroundings_(std::move(surroundings)), interrupt_(interrupt) {}

PageStyle Program::style() const {
  PageStyle style;
  style.wide = flags.output == "wide";
  style.headings = !flags.no_headers;
  style.width = surroundings_.out_is_terminal && !style.wide ? surroundings_.width : 0;
  style.colours = surroundings_.out_is_terminal && !flags.no_color &&
                  Variable("NO_COLOR").empty() && Variable("TERM") != "dumb";
  return style;
}

std::string Program::config_path() const { return ConfigPath(surroundings_.variable); }

std::string Program::user() {
  std::string user = UserWithoutAsking();
  if (!user.empty()) return user;
  if (!token_user_.has_value()) token_user_ = UserOfToken();
  return *token_user_;
}

std::string Program::UserWithoutAsking() const {
  if (!flags.owner.empty()) return flags.owner;
  const absl::StatusOr<ServerChoice> choice = ChooseServer();
  const std::string certified = CertifiedName(choice);
  if (!certified.empty()) return certified;
  // The controller knows a token's owner better than the system does.
  const bool token = choice.ok() && !choice->token_file.empty();
  return token ? UserOfEnvironment() : local_user();
}

std::string Program::UserOfToken() {
  const absl::StatusOr<ServerChoice> choice = ChooseServer();
  if (!choice.ok() || choice->token_file.empty()) return "";
  v1::WhoAmIResponse response;
  token_status_ = client().Call(methods::kIdentityWhoAmI, {}, &response);
  if (!token_status_.ok()) return "";
  const absl::StatusOr<Principal> principal = ParsePrincipalUri(response.principal());
  if (principal.ok()) return principal->name;
  token_status_ = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                               absl::StrCat("the controller does not know the token of ",
                                            choice->token_file, ": ask an admin for a new one"));
  return "";
}

std::string Program::UserOfEnvironment() const {
  const std::string user = Variable("USER");
  return user.empty() ? Variable("LOGNAME") : user;
}

std::string Program::local_user() const {
  const std::string user = UserOfEnvironment();
  return user.empty() && surroundings_.account ? surroundings_.account() : user;
}

ServerChoice Program::ChoiceOf(const std::string& server, const std::string& name,
                               const CliContext* context) const {
  ServerChoice choice{WithPorts(server), name};
  const bool plain = flags.plaintext || (context != nullptr && context->plaintext);
  if (!flags.tls_dir.empty()) {
    choice.files = FilesIn(flags.tls_dir);
  } else if (context != nullptr && !context->ca.empty() && !flags.plaintext) {
    choice.files = TlsFiles{context->ca, context->certificate, context->key};
    choice.token_file = context->token_file;
  } else if (!plain &&
             choice.address != RunningDevController(DefaultDevDir(surroundings_.variable))) {
    const std::string dir = Variable("PACELINE_TLS_DIR");
    if (!dir.empty()) {
      choice.files = FilesIn(dir);
    } else if (Variable("PACELINE_PLAINTEXT") != "1") {
      choice.files = FilesIn(DefaultTlsDir(surroundings_.variable));
    }
    choice.token_file = Variable("PACELINE_TOKEN_FILE");
  }
  if (!flags.token_file.empty()) choice.token_file = flags.token_file;
  // Controllers prefer a certificate to a token, so none is shown along with one.
  if (choice.files.has_value() && !choice.token_file.empty()) {
    choice.files = TlsFiles{choice.files->ca, "", ""};
  }
  return choice;
}

absl::StatusOr<ServerChoice> Program::ChooseServer() const {
  if (client_ != nullptr) return client_server_;
  if (!flags.server.empty()) {
    PACELINE_RETURN_IF_ERROR(CheckServerAddress(flags.server));
    return ChoiceOf(flags.server, "", nullptr);
  }
  std::string context = flags.context;
  if (context.empty()) {
    const std::string server = Variable("PACELINE_SERVER");
    if (!server.empty()) {
      PACELINE_RETURN_IF_ERROR(CheckServerAddress(server));
      return ChoiceOf(server, "", nullptr);
    }
    context = Variable("PACELINE_CONTEXT");
  }
  PACELINE_ASSIGN_OR_RETURN(const CliConfig config, ReadConfig(config_path()));
  if (context.empty()) context = config.current;
  if (!context.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const CliContext found, FindContext(config, context, config_path()));
    return ChoiceOf(found.server, context, &found);
  }
  const std::string dev = RunningDevController(DefaultDevDir(surroundings_.variable));
  ServerChoice choice = ChoiceOf(dev.empty() ? kDefaultServer : dev, "", nullptr);
  choice.is_default = dev.empty();
  return choice;
}

std::string Program::server() const {
  const absl::StatusOr<ServerChoice> choice = ChooseServer();
  return choice.ok() ? choice->address : "";
}

std::string Program::ServerText() const {
  const absl::StatusOr<ServerChoice> choice = ChooseServer();
  if (!choice.ok()) return "";
  return choice->context.empty()
             ? choice->address
             : absl::StrCat(choice->address, " (context ", choice->context, ")");
}

std::string Program::OutageText() const {
  return absl::StrCat("the controller at ", ServerText(),
                      " does not answer; going on when it is back");
}

Client::Options Program::ClientOptions() const {
  const absl::StatusOr<ServerChoice> choice = ChooseServer();
  Client::Options options;
  options.timeout = absl::Seconds(flags.timeout_s);
  options.user = UserWithoutAsking();
  options.problem = choice.ok() ? CheckIdentity(*choice) : choice.status();
  // Unused if there is a problem.
  options.server = choice.ok() ? choice->address : kDefaultServer;
  if (!options.problem.ok()) return options;
  if (choice->files.has_value()) options.credentials = ChannelCredentials(*choice->files);
  if (!choice->token_file.empty()) {
    options.token = [file = choice->token_file] { return ReadUserToken(file); };
  }
  options.explain = [files = choice->files](const std::string& address) {
    return ExplainConnection(address, files, absl::Now());
  };
  return options;
}

Client& Program::client() {
  if (client_ == nullptr) {
    Client::Options options = ClientOptions();
    options.notice = [this](const std::string& line) { Note(line); };
    const absl::StatusOr<ServerChoice> choice = ChooseServer();
    if (choice.ok()) client_server_ = *choice;
    client_ = std::make_unique<Client>(std::move(options), interrupt_);
  }
  return *client_;
}

void Program::Note(const std::string& line) {
  if (flags.quiet) return;
  const absl::MutexLock lock(&mutex_);
  surroundings_.err << line << std::endl;
}

std::string Program::JsonOf(const google::protobuf::Message& message) {
  return MessageAsJson(message, /*spaced=*/true);
}

void Program::PrintJson(const google::protobuf::Message& message) {
  PrintJsonText(JsonOf(message));
}

void Program::PrintJsonLine(const google::protobuf::Message& message) {
  const std::string json = MessageAsJson(message, /*spaced=*/false);
  if (flags.output == "yaml") {
    surroundings_.out << "---\n" << JsonAsYaml(json) << std::flush;
  } else {
    surroundings_.out << json << std::endl;
  }
}

void Program::PrintJsonText(const std::string& json) {
  const std::string text = flags.output == "yaml" ? JsonAsYaml(json) : json;
  surroundings_.out << text << (absl::EndsWith(text, "\n") ? "" : "\n") << std::flush;
}

int Program::Fail(const grpc::Status& status) {
  if (interrupt_.raised()) return kCliInterrupted;
  const std::string meant = client_ == nullptr ? "" : MeantName(*client_, status);
  surroundings_.err << ErrorText(status, ServerText(), meant) << std::flush;
  return ExitOf(status);
}

int Program::Fail(const absl::Status& status) {
  surroundings_.err << ErrorText(status) << std::flush;
  return ExitOf(status);
}

int Program::Fail(CliExit exit, const std::string& message) {
  surroundings_.err << "error: " << message << std::endl;
  return exit;
}

int Program::FailWithoutUser() {
  if (!token_status_.ok()) return Fail(token_status_);
  return Fail(kCliUsage,
              "$USER is not set, and the system has no name for this account: say in whose name "
              "with --owner NAME");
}

}  // namespace paceline
