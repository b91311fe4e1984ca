// paceline job wait JOB
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/verbs/follow.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

struct JobWaitFlags {
  std::string job;
  double timeout_s = 0;
};

int WaitForJob(Program& program, const JobWaitFlags& flags) {
  FollowOptions options;
  options.progress = false;
  if (flags.timeout_s > 0) options.deadline = absl::Now() + absl::Seconds(flags.timeout_s);
  v1::GetJobRequest request;
  request.set_job(flags.job);
  v1::Job job;
  const grpc::Status status = program.client().GetJob(request, &job);
  if (!status.ok()) return program.Fail(status);
  return FollowJob(program, job.id(), options);
}

}  // namespace

void AddJobWait(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobWaitFlags>();
  CLI::App* verb =
      parent.add_subcommand("wait", "Wait until a job has ended; the exit code tells how");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_option("--for", flags->timeout_s,
                   "Wait at most so many seconds; 0: as long as it takes")
      ->check(Number(0));
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return WaitForJob(program, *flags); };
  });
}

}  // namespace paceline
