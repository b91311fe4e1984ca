#include "cli/verbs/plan_change.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cli/rpc/job_watch.h"
#include "cli/text/neutral.h"
#include "cli/view/job_text.h"
#include "cli/view/ladder_text.h"

namespace paceline {
namespace {

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

}  // namespace

int ShowPlan(Program& program, const v1::Job& job) {
  if (program.json()) {
    program.PrintJson(job);
  } else {
    program.out() << PlanText(job) << std::endl;
  }
  return kCliOk;
}

int ShowPlanOf(Program& program, const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  v1::Job found;
  const grpc::Status status = program.client().GetJob(request, &found);
  return status.ok() ? ShowPlan(program, found) : program.Fail(status);
}

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
  watch.on_outage = [&](const grpc::Status&) { program.Note(program.OutageText()); };
  if (!active()) {
    const grpc::Status status = WatchJobs(program.client(), watch);
    if (!status.ok()) return program.Fail(status);
  }
  ShowPlan(program, job);
  if (active()) return kCliOk;
  const std::string failure = PlanFailureText(job);
  if (!failure.empty()) {
    return program.Fail(kCliFailed, absl::StrCat("epoch ", epoch, " is not taken up: ", failure));
  }
  return program.Fail(kCliFailed,
                      absl::StrCat(job.id(), " ended before its ranks took epoch ", epoch, " up"));
}

}  // namespace paceline
