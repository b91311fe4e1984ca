// paceline automation status|pause|resume
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/verbs/node_action.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node_page.h"
#include "common/uuid.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct AutomationFlags {
  std::string reason;
  std::string request_id;
};

int Tell(Program& program, const grpc::Status& status, const v1::AutomationStatus& automation) {
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(automation);
  } else {
    program.out() << AutomationPage(automation, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

int Pause(Program& program, const AutomationFlags& flags) {
  v1::PauseAutomationRequest request;
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_reason(flags.reason);
  v1::AutomationStatus automation;
  const grpc::Status status = program.client().PauseAutomation(request, &automation);
  return Tell(program, status, automation);
}

int Resume(Program& program, const AutomationFlags& flags) {
  v1::ResumeAutomationRequest request;
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  v1::AutomationStatus automation;
  const grpc::Status status = program.client().ResumeAutomation(request, &automation);
  return Tell(program, status, automation);
}

CLI::App* AddChange(CLI::App& parent, Program& program, const std::string& name,
                    const std::string& what, AutomationFlags& flags) {
  CLI::App* verb = parent.add_subcommand(name, what);
  AddOwner(*verb, program);
  verb->add_option("--request-id", flags.request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  return verb;
}

}  // namespace

void AddAutomationStatus(CLI::App& parent, Program& program) {
  CLI::App* verb =
      parent.add_subcommand("status", "Show whether it is paused, and what it drains now");
  verb->callback([&program] {
    program.action = [&program] {
      v1::AutomationStatus automation;
      const grpc::Status status = program.client().GetAutomationStatus({}, &automation);
      return Tell(program, status, automation);
    };
  });
}

void AddAutomationPause(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<AutomationFlags>();
  CLI::App* verb =
      AddChange(parent, program, "pause", "Let it begin no drain until it is resumed", *flags);
  AddReason(*verb, flags->reason);
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Pause(program, *flags); }; });
}

void AddAutomationResume(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<AutomationFlags>();
  CLI::App* verb =
      AddChange(parent, program, "resume", "Let it act again, also after its brake", *flags);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return Resume(program, *flags); };
  });
}

}  // namespace paceline
