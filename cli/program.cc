#include "cli/program.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/dev/dev_dir.h"
#include "cli/rpc/error_text.h"
#include "common/log.h"
#include "google/protobuf/util/json_util.h"

namespace paceline {
namespace {

constexpr char kDefaultServer[] = "127.0.0.1:7450";
constexpr char kDefaultPort[] = ":7450";

std::string JsonText(const google::protobuf::Message& message, bool spaced) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = spaced;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails only for messages that hold an Any, which ours do not.
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  PACELINE_CHECK(status.ok());
  return text;
}

}  // namespace

Program::Program(Surroundings surroundings, Interrupt& interrupt)
    : surroundings_(std::move(surroundings)), interrupt_(interrupt) {}

PageStyle Program::style() const {
  PageStyle style;
  style.width = surroundings_.out_is_terminal ? surroundings_.width : 0;
  style.colours = surroundings_.out_is_terminal && !flags.no_color &&
                  Variable("NO_COLOR").empty() && Variable("TERM") != "dumb";
  return style;
}

std::string Program::server() const {
  if (client_ != nullptr) return client_server_;
  const std::string named = flags.server.empty() ? Variable("PACELINE_SERVER") : flags.server;
  if (!named.empty()) return absl::StrContains(named, ':') ? named : named + kDefaultPort;
  const std::string dev = RunningDevController(DefaultDevDir(surroundings_.variable));
  return dev.empty() ? kDefaultServer : dev;
}

Client& Program::client() {
  if (client_ == nullptr) {
    Client::Options options;
    client_server_ = server();
    options.server = client_server_;
    options.timeout = absl::Seconds(flags.timeout_s);
    options.notice = [this](const std::string& line) { Note(line); };
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
  return JsonText(message, true);
}

void Program::PrintJson(const google::protobuf::Message& message) {
  surroundings_.out << JsonOf(message) << std::flush;
}

void Program::PrintJsonLine(const google::protobuf::Message& message) {
  surroundings_.out << JsonText(message, false) << std::endl;
}

int Program::Fail(const grpc::Status& status) {
  if (interrupt_.raised()) return kCliInterrupted;
  surroundings_.err << ErrorText(status, server()) << std::flush;
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

}  // namespace paceline
