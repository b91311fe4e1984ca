// paceline job why JOB
#include <memory>
#include <string>

#include "cli/text/neutral.h"
#include "cli/verbs/verbs.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

int TellWhy(Program& program, const std::string& name) {
  v1::WhyRequest request;
  request.set_job(name);
  v1::WhyResponse response;
  const grpc::Status status = program.client().WhyJob(request, &response);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(response);
    return kCliOk;
  }
  for (const std::string& obstacle : response.obstacles()) {
    program.out() << NeutralLine(obstacle) << "\n";
  }
  if (response.obstacles().empty()) program.out() << "Nothing is in its way.\n";
  program.out() << std::flush;
  return kCliOk;
}

}  // namespace

void AddJobWhy(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "why", "Tell why a job waits, or what it lacks while it runs: a line per obstacle");
  verb->add_option("JOB", *name, "Id, unique beginning of an id, or name")->required();
  verb->callback(
      [name, &program] { program.action = [name, &program] { return TellWhy(program, *name); }; });
}

}  // namespace paceline
