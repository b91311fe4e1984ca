// paceline job watch [JOB]
#include <memory>
#include <string>

#include "cli/verbs/follow.h"
#include "cli/verbs/verbs.h"
#include "cli/verbs/watch_flag.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

int Watch(Program& program, const std::string& name) {
  if (name.empty()) return TellJobChanges(program, [](const v1::Job&) { return true; });
  v1::GetJobRequest request;
  request.set_job(name);
  v1::Job job;
  const grpc::Status status = program.client().GetJob(request, &job);
  if (!status.ok()) return program.Fail(status);
  FollowOptions options;
  options.events = true;
  return FollowJob(program, job.id(), options);
}

}  // namespace

void AddJobWatch(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "watch", "Show the progress of a job until it ends, or the changes of all jobs");
  verb->add_option("JOB", *name, "Id, unique beginning of an id, or name; none: all jobs");
  verb->callback(
      [name, &program] { program.action = [name, &program] { return Watch(program, *name); }; });
}

}  // namespace paceline
