// paceline job describe JOB
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_page.h"

namespace paceline {
namespace {

int DescribeJob(Program& program, const std::string& name) {
  v1::GetJobRequest request;
  request.set_job(name);
  v1::Job job;
  const grpc::Status status = program.client().GetJob(request, &job);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(job);
  } else {
    program.out() << JobPage(job, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddJobDescribe(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "describe", "Show everything about a job: progress, ranks, failure, spec");
  verb->add_option("JOB", *name, "Id, unique beginning of an id, or name")->required();
  verb->callback([name, &program] {
    program.action = [name, &program] { return DescribeJob(program, *name); };
  });
}

}  // namespace paceline
