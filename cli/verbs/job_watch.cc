// paceline job watch [JOB]
#include "cli/rpc/job_watch.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/neutral.h"
#include "cli/verbs/follow.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_text.h"
#include "cli/view/progress_line.h"

namespace paceline {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(5);

// A line per change of state, and one every few seconds for each job that advances.
int WatchAllJobs(Program& program) {
  struct Shown {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    absl::Time when = absl::InfinitePast();
  };
  std::map<std::string, Shown> shown;
  JobWatch watch;
  watch.each = [&](const v1::JobEvent& event) {
    if (program.json()) {
      program.PrintJsonLine(event);
      return true;
    }
    const v1::Job& job = event.job();
    if (event.type() == v1::DELETED) {
      shown.erase(job.id());
      program.out() << NeutralLine(job.id()) << " deleted" << std::endl;
      return true;
    }
    Shown& last = shown[job.id()];
    const absl::Time now = absl::Now();
    if (job.state() == last.state && now < last.when + kProgressInterval) return true;
    last = {job.state(), now};
    program.out() << NeutralLine(job.id()) << " " << ProgressText(job) << std::endl;
    return true;
  };
  watch.on_outage = [&](const grpc::Status&) {
    program.Note(absl::StrCat("the controller at ", program.server(),
                              " does not answer; going on when it is back"));
  };
  return program.Fail(WatchJobs(program.client(), watch));
}

int Watch(Program& program, const std::string& name) {
  if (name.empty()) return WatchAllJobs(program);
  v1::GetJobRequest request;
  request.set_job(name);
  v1::Job job;
  const grpc::Status status = program.client().GetJob(request, &job);
  if (!status.ok()) return program.Fail(status);
  return FollowJob(program, job.id(), {});
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
