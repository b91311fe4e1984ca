// paceline checkpoint save, delete, pin and unpin.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/rpc/watch.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/checkpoint/checkpoint_location.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/program/watch_flag.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

struct CheckpointSaveFlags {
  std::string job;
  std::string request_id;
  std::string to;
  bool now = false;
  bool no_wait = false;
  double wait_s = 0;
};

// A later order replaces a pending one, and covers it.
bool IsPending(const v1::Job& job, int64_t order) {
  return job.checkpoints().order().number() >= order &&
         job.checkpoints().order().state() == v1::SaveOrderStatus::PENDING &&
         !HasEnded(job.state());
}

std::string LaterSaveText(const v1::Job& job) {
  const std::string why = SanitizeLine(job.checkpoints().order().reason());
  return absl::StrCat("a later save", why.empty() ? "" : absl::StrCat(", ", why, ","),
                      " takes the place of this one");
}

// Prints "digits/120: 44.7 MiB in /srv/...; training stood still for ...".
int TellSaved(Program& program, const v1::Job& job) {
  if (program.json()) {
    program.PrintJson(job);
    return kCliOk;
  }
  v1::GetCheckpointRequest request;
  request.set_checkpoint(absl::StrCat(job.id(), "/", job.checkpoints().order().step()));
  v1::Checkpoint saved;
  const grpc::Status status = program.client().Call(methods::kCheckpointGet, request, &saved);
  if (!status.ok()) return program.Fail(status);
  const std::string cost = SaveCostText(job.checkpoints());
  program.out() << CheckpointNameText(saved) << ": " << BytesText(saved.bytes()) << " in "
                << SanitizeLine(saved.directory()) << (cost.empty() ? "" : "; ") << cost
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
                        absl::StrCat("nothing was saved: ", SanitizeLine(outcome.error())));
  }
  return program.Fail(kCliFailed,
                      absl::StrCat(JobNameText(job), " ended as ", StateText(job.state()),
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
  watch.on_outage = OutageNote(program);
  if (IsPending(job, order)) {
    program.Note(absl::StrCat("asked ", JobNameText(job), " for a checkpoint"));
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
  request.set_request_id(RequestId(flags.request_id));
  request.set_now(flags.now);
  if (!flags.to.empty()) request.set_directory(AbsolutePath(flags.to));
  v1::Job job;
  const grpc::Status status = program.client().Call(methods::kCheckpointSave, request, &job);
  if (status.ok() && !flags.no_wait) return AwaitSave(program, flags, std::move(job));
  return TellAnswer(program, status, job, [&](std::ostream& out) {
    out << "asked " << JobNameText(job) << " for a checkpoint\n";
  });
}

struct CheckpointDeleteFlags {
  std::string checkpoint;
  std::string request_id;
  bool force = false;
};

int DeleteCheckpoint(Program& program, const CheckpointDeleteFlags& flags) {
  const int refused = RefusePath(program, flags.checkpoint);
  if (refused != kCliOk) return refused;
  v1::DeleteCheckpointRequest request;
  request.set_checkpoint(flags.checkpoint);
  request.set_request_id(RequestId(flags.request_id));
  request.set_force(flags.force);
  v1::Checkpoint checkpoint;
  const grpc::Status status =
      program.client().Call(methods::kCheckpointDelete, request, &checkpoint);
  return TellAnswer(program, status, checkpoint, [&](std::ostream& out) {
    out << CheckpointNameText(checkpoint) << " (" << SanitizeLine(checkpoint.directory())
        << ") is being removed\n";
  });
}

void AddCheckpointDelete(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointDeleteFlags>();
  CLI::App* verb = parent.add_subcommand("delete", "Remove a checkpoint and its files");
  verb->add_option("CHECKPOINT", flags->checkpoint,
                   "Name JOB/STEP or JOB/STEP.gGENERATION, or JOB for its newest one")
      ->required();
  verb->add_flag("--force", flags->force, "Also if it is the newest complete one of its job");
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, DeleteCheckpoint);
}

struct CheckpointPinFlags {
  std::string checkpoint;
  std::string request_id;
};

int PinCheckpoint(Program& program, const CheckpointPinFlags& flags, bool pinned) {
  const int refused = RefusePath(program, flags.checkpoint);
  if (refused != kCliOk) return refused;
  v1::PinCheckpointRequest request;
  request.set_checkpoint(flags.checkpoint);
  request.set_request_id(RequestId(flags.request_id));
  request.set_pinned(pinned);
  v1::Checkpoint checkpoint;
  const grpc::Status status = program.client().Call(methods::kCheckpointPin, request, &checkpoint);
  return TellAnswer(program, status, checkpoint, [&](std::ostream& out) {
    out << CheckpointNameText(checkpoint)
        << (checkpoint.pinned() ? " is pinned: it is kept until it is unpinned\n"
                                : " is not pinned\n");
  });
}

void AddPinVerb(CLI::App& parent, Program& program, bool pinned, const std::string& name,
                const std::string& what) {
  const auto flags = std::make_shared<CheckpointPinFlags>();
  CLI::App* verb = parent.add_subcommand(name, what);
  verb->add_option("CHECKPOINT", flags->checkpoint,
                   "Name JOB/STEP or JOB/STEP.gGENERATION, or JOB for its newest one")
      ->required();
  AddRequestId(*verb, flags->request_id);
  verb->callback([flags, pinned, &program] {
    program.action = [flags, pinned, &program] { return PinCheckpoint(program, *flags, pinned); };
  });
}

void AddCheckpointPin(CLI::App& parent, Program& program) {
  AddPinVerb(parent, program, true, "pin", "Keep a checkpoint, however many follow");
}

void AddCheckpointUnpin(CLI::App& parent, Program& program) {
  AddPinVerb(parent, program, false, "unpin", "Let a checkpoint that was pinned go in its turn");
}

}  // namespace

void AddCheckpointSave(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointSaveFlags>();
  CLI::App* verb = parent.add_subcommand(
      "save", "Save a checkpoint of a running job, and wait until it is safe");
  AddJob(*verb, flags->job);
  verb->add_flag("--now", flags->now,
                 "At once, with the mean of all parameters if the ranks are not equal then, which "
                 "changes the training");
  verb->add_option("--to", flags->to,
                   "Directory that every node can write, instead of the job's own: also for what a "
                   "job writes at its end, while it holds its state since that fails")
      ->check(PlainPath())
      ->check([](const std::string& directory) {
        return directory.empty() ? "it is empty; give a directory" : std::string();
      });
  auto* no_wait = verb->add_flag("--no-wait", flags->no_wait, "Only ask for it");
  verb->add_option("--for", flags->wait_s, "Wait at most so many seconds; 0: as long as it takes")
      ->transform(Seconds(0))
      ->excludes(no_wait);
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, SaveCheckpoint);
}

void AddCheckpointChanges(CLI::App& parent, Program& program) {
  AddCheckpointDelete(parent, program);
  AddCheckpointPin(parent, program);
  AddCheckpointUnpin(parent, program);
}

}  // namespace paceline
