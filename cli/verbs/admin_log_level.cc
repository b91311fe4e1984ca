// paceline admin log-level [LEVEL]
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/verbs/node_action.h"
#include "cli/verbs/verbs.h"
#include "common/uuid.h"
#include "proto/admin.pb.h"
#include "proto/log_level.pb.h"

namespace paceline {
namespace {

struct LogLevelFlags {
  std::string level;
  std::string node;
};

// "debug"; "default" stands for what the daemon was started with.
std::string LevelText(v1::LogLevel level) {
  if (level == v1::LOG_LEVEL_UNSPECIFIED) return "default";
  return absl::AsciiStrToLower(absl::StripPrefix(v1::LogLevel_Name(level), "LOG_LEVEL_"));
}

v1::LogLevel LevelOf(const std::string& text) {
  v1::LogLevel level = v1::LOG_LEVEL_UNSPECIFIED;
  v1::LogLevel_Parse("LOG_LEVEL_" + absl::AsciiStrToUpper(text), &level);
  return level;
}

int LogLevelVerb(Program& program, const LogLevelFlags& flags) {
  v1::LogLevelReply reply;
  grpc::Status status;
  if (flags.level.empty()) {
    v1::GetLogLevelRequest request;
    request.set_node(flags.node);
    status = program.client().GetLogLevel(request, &reply);
  } else {
    v1::SetLogLevelRequest request;
    request.set_node(flags.node);
    request.set_level(LevelOf(flags.level));
    request.set_request_id(NewUuid());
    request.set_owner(program.user());
    if (request.owner().empty()) return program.FailWithoutUser();
    status = program.client().SetLogLevel(request, &reply);
  }
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(reply);
  } else {
    program.out() << (flags.node.empty() ? "controller" : flags.node) << ": "
                  << LevelText(reply.level()) << "\n";
  }
  return kCliOk;
}

}  // namespace

void AddAdminLogLevel(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<LogLevelFlags>();
  CLI::App* verb = parent.add_subcommand(
      "log-level", "Show or change what a daemon writes to its log, while it runs");
  verb->add_option("LEVEL", flags->level, "default: as the daemon was started")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "default"}));
  verb->add_option("--node", flags->node, "Of this node's worker daemon. Default: the controller");
  AddOwner(*verb, program);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return LogLevelVerb(program, *flags); };
  });
}

}  // namespace paceline
