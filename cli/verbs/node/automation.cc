// paceline automation status, pause and resume.
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/node/node_page.h"
#include "proto/node.pb.h"

namespace paceline {
namespace {

struct AutomationFlags {
  std::string reason;
  std::string request_id;
};

int Tell(Program& program, const grpc::Status& status, const v1::AutomationStatus& automation) {
  return TellAnswer(program, status, automation, [&](std::ostream& out) {
    out << AutomationPage(automation, absl::Now(), program.style());
  });
}

int ShowStatus(Program& program) {
  v1::AutomationStatus automation;
  const grpc::Status status = program.client().Call(methods::kAutomationGetStatus, {}, &automation);
  return Tell(program, status, automation);
}

int Pause(Program& program, const AutomationFlags& flags) {
  v1::PauseAutomationRequest request;
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  request.set_request_id(RequestId(flags.request_id));
  request.set_reason(flags.reason);
  v1::AutomationStatus automation;
  const grpc::Status status =
      program.client().Call(methods::kAutomationPause, request, &automation);
  return Tell(program, status, automation);
}

int Resume(Program& program, const AutomationFlags& flags) {
  v1::ResumeAutomationRequest request;
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  request.set_request_id(RequestId(flags.request_id));
  v1::AutomationStatus automation;
  const grpc::Status status =
      program.client().Call(methods::kAutomationResume, request, &automation);
  return Tell(program, status, automation);
}

void AddAutomationStatus(CLI::App& parent, Program& program) {
  CLI::App* verb =
      parent.add_subcommand("status", "Show whether it is paused, and what it drains now");
  Run(*verb, program, ShowStatus);
}

void AddAutomationPause(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<AutomationFlags>();
  CLI::App* verb = parent.add_subcommand("pause", "Let it begin no drain until it is resumed");
  AddOwner(*verb, program);
  AddRequestId(*verb, flags->request_id);
  AddReason(*verb, flags->reason);
  RunWith(*verb, program, flags, Pause);
}

void AddAutomationResume(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<AutomationFlags>();
  CLI::App* verb = parent.add_subcommand("resume", "Let it act again, also after its brake");
  AddOwner(*verb, program);
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, Resume);
}

}  // namespace

void AddAutomationVerbs(CLI::App& parent, Program& program) {
  AddAutomationStatus(parent, program);
  AddAutomationPause(parent, program);
  AddAutomationResume(parent, program);
}

}  // namespace paceline
