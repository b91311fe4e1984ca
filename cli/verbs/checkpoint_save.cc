// paceline checkpoint save JOB
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/rpc/job_watch.h"
#include "cli/text/neutral.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint_text.h"
#include "cli/view/job_text.h"
#include "cli/view/numbers.h"
#include "common/uuid.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

struct CheckpointSaveFlags {
  std::string job;
  std::string request_id;
  bool now = false;
  bool no_wait = false;
  double wait_s = 0;
};

// A later order takes the place of one that is pending, and covers it.
bool IsPending(const v1::Job& job, int64_t order) {
  return job.checkpoints().order().number() >= order &&
         job.checkpoints().order().state() == v1::SaveOrderStatus::PENDING &&
         !HasEnded(job.state());
}

std::string JobText(const v1::Job& job) {
  return absl::StrCat(NeutralLine(job.spec().name()), " (", NeutralLine(job.id()), ")");
}

std::string LaterSaveText(const v1::Job& job) {
  const std::string why = NeutralLine(job.checkpoints().order().reason());
  return absl::StrCat("a later save", why.empty() ? "" : absl::StrCat(", ", why, ","),
                      " takes the place of this one");
}

// "digits/120: 44.7 MiB in /srv/...; training stood still for ...".
int TellSaved(Program& program, const v1::Job& job) {
  if (program.json()) {
    program.PrintJson(job);
    return kCliOk;
  }
  v1::GetCheckpointRequest request;
  request.set_checkpoint(absl::StrCat(job.id(), "/", job.checkpoints().order().step()));
  v1::Checkpoint saved;
  const grpc::Status status = program.client().GetCheckpoint(request, &saved);
  if (!status.ok()) return program.Fail(status);
  const std::string cost = SaveCostText(job.checkpoints());
  program.out() << CheckpointNameText(saved) << ": " << BytesText(saved.bytes()) << " in "
                << NeutralLine(saved.directory()) << (cost.empty() ? "" : "; ") << cost
                << std::endl;
  return kCliOk;
}

int TellOutcome(Program& program, const v1::Job& job, int64_t order) {
  const v1::SaveOrderStatus& outcome = job.checkpoints().order();
  if (outcome.number() >= order && outcome.state() == v1::SaveOrderStatus::COMPLETE) {
    return TellSaved(program, job);
  }
  if (program.json()) program.PrintJson(job);
  if (outcome.number() >= order && outcome.state() == v1::SaveOrderStatus::FAILED) {
    return program.Fail(kCliFailed,
                        absl::StrCat("nothing was saved: ", NeutralLine(outcome.error())));
  }
  return program.Fail(kCliFailed, absl::StrCat(JobText(job), " ended as ", StateText(job.state()),
                                               " before the checkpoint was complete"));
}

int AwaitSave(Program& program, const CheckpointSaveFlags& flags, v1::Job job) {
  const int64_t order = job.checkpoints().order().number();
  JobWatch watch;
  watch.job_id = job.id();
  if (flags.wait_s > 0) watch.deadline = absl::Now() + absl::Seconds(flags.wait_s);
  int64_t newest = order;
  watch.each = [&](const v1::JobEvent& event) {
    if (event.type() == v1::DELETED) return false;
    job = event.job();
    if (job.checkpoints().order().number() > newest) {
      newest = job.checkpoints().order().number();
      program.Note(LaterSaveText(job));
    }
    return IsPending(job, order);
  };
  watch.on_outage = [&](const grpc::Status&) { program.Note(program.OutageText()); };
  if (IsPending(job, order)) {
    program.Note(absl::StrCat("asked ", JobText(job), " for a checkpoint"));
    const grpc::Status status = WatchJobs(program.client(), watch);
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return program.Fail(kCliTimeout,
                          "the checkpoint is not complete in the time given; it goes on");
    }
    if (!status.ok()) return program.Fail(status);
  }
  return TellOutcome(program, job, order);
}

int SaveCheckpoint(Program& program, const CheckpointSaveFlags& flags) {
  v1::SaveCheckpointRequest request;
  request.set_job(flags.job);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_now(flags.now);
  v1::Job job;
  const grpc::Status status = program.client().SaveCheckpoint(request, &job);
  if (!status.ok()) return program.Fail(status);
  if (!flags.no_wait) return AwaitSave(program, flags, std::move(job));
  if (program.json()) {
    program.PrintJson(job);
  } else {
    program.out() << "asked " << JobText(job) << " for a checkpoint" << std::endl;
  }
  return kCliOk;
}

}  // namespace

void AddCheckpointSave(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointSaveFlags>();
  CLI::App* verb = parent.add_subcommand(
      "save", "Save a checkpoint of a running job, and wait until it is safe");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_flag("--now", flags->now,
                 "At once, with the mean of all parameters if the ranks are not equal then, which "
                 "changes the training");
  auto* no_wait = verb->add_flag("--no-wait", flags->no_wait, "Only ask for it");
  verb->add_option("--for", flags->wait_s, "Wait at most so many seconds; 0: as long as it takes")
      ->check(Number(0))
      ->excludes(no_wait);
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return SaveCheckpoint(program, *flags); };
  });
}

}  // namespace paceline
