// paceline job apply JOB ADVICE
#include <cstdint>
#include <memory>
#include <string>

#include "cli/verbs/node_action.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/decision_page.h"
#include "common/uuid.h"
#include "proto/straggler.pb.h"

namespace paceline {
namespace {

struct JobApplyFlags {
  std::string job;
  int64_t advice = 0;
  std::string request_id;
};

int ApplyAdvice(Program& program, const JobApplyFlags& flags) {
  v1::ApplyAdviceRequest request;
  request.set_job(flags.job);
  request.set_advice(flags.advice);
  request.set_by(program.user());
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  if (request.by().empty()) return program.FailWithoutUser();
  v1::RemedyDecision decision;
  const grpc::Status status = program.client().ApplyAdvice(request, &decision);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(decision);
  } else {
    program.out() << DecisionLine(decision, program.style()) << std::endl;
  }
  return kCliOk;
}

}  // namespace

void AddJobApply(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobApplyFlags>();
  CLI::App* verb = parent.add_subcommand(
      "apply", "Have what `job advise` lists carried out, while the job trains");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_option("ADVICE", flags->advice, "Its number")
      ->required()
      ->check(WholeNumber(1, INT64_MAX));
  AddOwner(*verb, program);
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ApplyAdvice(program, *flags); };
  });
}

}  // namespace paceline
