// paceline job advise JOB
#include <memory>
#include <string>

#include "cli/verbs/verbs.h"
#include "cli/view/advice_page.h"
#include "proto/straggler.pb.h"

namespace paceline {
namespace {

int TellAdvice(Program& program, const std::string& name) {
  v1::AdviseRequest request;
  request.set_job(name);
  v1::JobAdvice advice;
  const grpc::Status status = program.client().AdviseJob(request, &advice);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(advice);
  } else {
    program.out() << AdvicePage(advice, name, program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddJobAdvise(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "advise", "Tell which ranks of a job are slow, what could be done about it, and why");
  verb->add_option("JOB", *name, "Id, unique beginning of an id, or name")->required();
  verb->callback([name, &program] {
    program.action = [name, &program] { return TellAdvice(program, *name); };
  });
}

}  // namespace paceline
