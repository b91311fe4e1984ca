// paceline job cancel JOB...
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_text.h"
#include "common/uuid.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

struct JobCancelFlags {
  std::vector<std::string> jobs;
  std::string reason;
  std::string request_id;
  double grace_s = 0;
  bool save = false;
};

int CancelJob(Program& program, const JobCancelFlags& flags, const std::string& name) {
  v1::CancelJobRequest request;
  request.set_job(name);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_reason(flags.reason);
  request.set_grace_s(flags.grace_s);
  request.set_save(flags.save);
  v1::Job job;
  const grpc::Status status = program.client().CancelJob(request, &job);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJsonLine(job);
    return kCliOk;
  }
  if (flags.save && (job.state() == v1::RUNNING || job.state() == v1::STARTING)) {
    program.out() << NeutralLine(job.spec().name()) << " (" << NeutralLine(job.id())
                  << ") saves a checkpoint and then ends; until then it is "
                  << StateText(job.state()) << std::endl;
    program.Note(absl::StrCat("next: paceline job watch ", NeutralLine(job.id())));
    return kCliOk;
  }
  const bool ended = HasEnded(job.state()) && job.state() != v1::CANCELLED;
  program.out() << NeutralLine(job.spec().name()) << " (" << NeutralLine(job.id()) << ") "
                << (ended ? "had ended: " : "is ") << StateText(job.state()) << std::endl;
  return kCliOk;
}

int CancelJobs(Program& program, const JobCancelFlags& flags) {
  int first_failure = kCliOk;
  for (const std::string& name : flags.jobs) {
    const int exit = CancelJob(program, flags, name);
    if (first_failure == kCliOk) first_failure = exit;
  }
  return first_failure;
}

}  // namespace

void AddJobCancel(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobCancelFlags>();
  CLI::App* verb = parent.add_subcommand("cancel", "End jobs before their time");
  verb->add_option("JOB", flags->jobs, "Id, unique beginning of an id, or name")->required();
  verb->add_option("--reason", flags->reason, "Shown with the job");
  verb->add_option("--grace", flags->grace_s,
                   "Seconds between asking a trainer to stop and killing it; 0: the "
                   "controller's 5 s")
      ->check(Number(0));
  verb->add_flag("--save", flags->save,
                 "Save a checkpoint first, and end when it is complete or has failed");
  auto* id =
      verb->add_option("--request-id", flags->request_id,
                       "Name of this request, such as a UUID, for one job. Default: a new one");
  verb->callback([flags, id, &program] {
    if (flags->jobs.size() > 1 && id->count() > 0) {
      throw CLI::ValidationError("--request-id", "stands for one request: name one job");
    }
    program.action = [flags, &program] { return CancelJobs(program, *flags); };
  });
}

}  // namespace paceline
