// paceline job ladder JOB [LADDER]
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/rpc/job_watch.h"
#include "cli/text/neutral.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job_text.h"
#include "cli/view/ladder_text.h"
#include "common/uuid.h"

namespace paceline {
namespace {

struct JobLadderFlags {
  std::string job;
  std::string ladder;
  std::string request_id;
  bool wait = false;
};

// "digits (job-...): hsgd 2:2,8:all, epoch 2, since step 128".
std::string PlanText(const v1::Job& job) {
  const v1::JobPlan& plan = job.plan();
  std::string text =
      absl::StrCat(NeutralLine(job.spec().name()), " (", NeutralLine(job.id()),
                   "): ", StrategyText(plan.strategy()), ", epoch ", plan.epoch(), ", ");
  if (plan.active_epoch() == plan.epoch()) {
    absl::StrAppend(&text, "since step ", plan.active_since_step());
  } else if (plan.active_epoch() > 0) {
    absl::StrAppend(&text, "not taken up yet: epoch ", plan.active_epoch(), " since step ",
                    plan.active_since_step());
  } else {
    absl::StrAppend(&text, "not taken up yet");
  }
  const std::string failure = PlanFailureText(job);
  if (!failure.empty()) absl::StrAppend(&text, "; ", failure);
  return text;
}

int Show(Program& program, const v1::Job& job) {
  if (program.json()) {
    program.PrintJson(job);
  } else {
    program.out() << PlanText(job) << std::endl;
  }
  return kCliOk;
}

// Until all ranks train by the job's epoch, or one could not prepare it.
int AwaitPlan(Program& program, v1::Job job) {
  const int64_t epoch = job.plan().epoch();
  const auto active = [&] { return job.plan().active_epoch() >= epoch; };
  JobWatch watch;
  watch.job_id = job.id();
  watch.each = [&](const v1::JobEvent& event) {
    if (event.type() == v1::DELETED) return false;
    job = event.job();
    return !active() && PlanFailureText(job).empty() && !HasEnded(job.state());
  };
  watch.on_outage = [&](const grpc::Status&) {
    program.Note("the controller does not answer; going on when it is back");
  };
  if (!active()) {
    const grpc::Status status = WatchJobs(program.client(), watch);
    if (!status.ok()) return program.Fail(status);
  }
  Show(program, job);
  if (active()) return kCliOk;
  const std::string failure = PlanFailureText(job);
  if (!failure.empty()) {
    return program.Fail(kCliFailed, absl::StrCat("epoch ", epoch, " is not taken up: ", failure));
  }
  return program.Fail(kCliFailed,
                      absl::StrCat(job.id(), " ended before its ranks took epoch ", epoch, " up"));
}

int ChangeLadder(Program& program, const JobLadderFlags& flags) {
  v1::Job job;
  if (flags.ladder.empty()) {
    v1::GetJobRequest request;
    request.set_job(flags.job);
    const grpc::Status status = program.client().GetJob(request, &job);
    return status.ok() ? Show(program, job) : program.Fail(status);
  }
  const absl::StatusOr<std::vector<v1::LadderLevel>> ladder = ParseLadder(flags.ladder);
  if (!ladder.ok()) return program.Fail(ladder.status());
  v1::ChangeLadderRequest request;
  request.set_job(flags.job);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.mutable_ladder()->Add(ladder->begin(), ladder->end());
  const grpc::Status status = program.client().ChangeLadder(request, &job);
  if (!status.ok()) return program.Fail(status);
  return flags.wait ? AwaitPlan(program, std::move(job)) : Show(program, job);
}

}  // namespace

void AddJobLadder(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobLadderFlags>();
  CLI::App* verb =
      parent.add_subcommand("ladder", "Show or change the ladder of a job, also while it trains");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  auto* ladder = verb->add_option(
      "LADDER", flags->ladder,
      "New levels PERIOD:SIZE or PERIOD:node|rack|all, each with :int8 if wanted, such "
      "as 2:2,4:4,8:all; or synchronous: none. Default: show the present one");
  auto* wait = verb->add_flag("--wait", flags->wait, "Wait until all ranks have taken it up");
  wait->needs(ladder);
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one")
      ->needs(ladder);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ChangeLadder(program, *flags); };
  });
}

}  // namespace paceline
