// paceline job describe JOB
#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "cli/rpc/job_watch.h"
#include "cli/verbs/live_view.h"
#include "cli/verbs/verbs.h"
#include "cli/verbs/watch_flag.h"
#include "cli/view/job_page.h"
#include "cli/view/job_text.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

struct JobDescribeFlags {
  std::string job;
  bool watch = false;
};

void Show(Program& program, const v1::Job& job) {
  if (program.json()) {
    program.PrintJson(job);
  } else {
    program.out() << JobPage(job, absl::Now(), program.style()) << std::flush;
  }
}

// `each` is given the job after each change, `say` a line about an outage. OK when the job has
// ended or was deleted.
grpc::Status WatchJob(Program& program, const v1::Job& job,
                      const std::function<void(const v1::Job&)>& each,
                      const std::function<void(const std::string&)>& say) {
  JobWatch watch;
  watch.job_id = job.id();
  watch.after_revision = job.revision();
  watch.each = [&](const v1::JobEvent& event) {
    if (event.type() == v1::DELETED) return false;
    each(event.job());
    return !HasEnded(event.job().state());
  };
  watch.on_outage = [&](const grpc::Status&) { say(program.OutageText()); };
  return HasEnded(job.state()) ? grpc::Status::OK : WatchJobs(program.client(), watch);
}

// The page in place, until the job has ended.
grpc::Status WatchPage(Program& program, v1::Job job) {
  LiveView view(program, [&] { return JobPage(job, absl::Now(), program.style()); });
  return WatchJob(
      program, job, [&](const v1::Job& next) { view.Update([&] { job = next; }); },
      [&](const std::string& line) { view.Say(line); });
}

// The page again after each change of state; JSON after each change.
grpc::Status WatchPages(Program& program, const v1::Job& job) {
  v1::JobState shown = job.state();
  if (program.json()) {
    program.PrintJsonLine(job);
  } else {
    Show(program, job);
  }
  const auto each = [&](const v1::Job& next) {
    if (program.json()) {
      program.PrintJsonLine(next);
    } else if (next.state() != shown) {
      program.out() << "\n";
      Show(program, next);
    }
    shown = next.state();
  };
  return WatchJob(program, job, each, [&](const std::string& line) { program.Note(line); });
}

int DescribeJob(Program& program, const JobDescribeFlags& flags) {
  v1::GetJobRequest request;
  request.set_job(flags.job);
  v1::Job job;
  grpc::Status status = program.client().GetJob(request, &job);
  if (!status.ok()) return program.Fail(status);
  if (flags.watch) {
    status = WatchesInPlace(program) ? WatchPage(program, job) : WatchPages(program, job);
    return status.ok() ? kCliOk : program.Fail(status);
  }
  Show(program, job);
  return kCliOk;
}

}  // namespace

void AddJobDescribe(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobDescribeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "describe", "Show everything about a job: progress, ranks, failure, spec");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  AddWatchFlag(*verb, &flags->watch);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return DescribeJob(program, *flags); };
  });
}

}  // namespace paceline
