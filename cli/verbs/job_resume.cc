// paceline job resume JOB
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/match.h"
#include "cli/rpc/error_text.h"
#include "cli/verbs/accepted_job.h"
#include "cli/verbs/checkpoint_place.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/global_batch.h"
#include "cli/view/ladder_text.h"
#include "common/uuid.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

struct JobResumeFlags {
  std::string job;
  std::string from;
  int ranks = 0;
  int batch_per_rank = 0;
  int accumulation_steps = 0;
  int64_t steps = 0;
  std::string ladder;
  std::string request_id;
  AcceptedJobFlags accepted;
};

bool ChangesBatch(const JobResumeFlags& flags) {
  return flags.ranks != 0 || flags.batch_per_rank != 0 || flags.accumulation_steps != 0;
}

int TellRefusal(Program& program, const grpc::Status& status) {
  const int exit = program.Fail(status);
  for (const FieldViolation& violation : FieldViolations(status)) {
    if (!absl::StrContains(violation.field, "hsgd.ladder")) continue;
    program.err() << "  --ladder gives the job one that fits, as `paceline job ladder` takes it"
                  << std::endl;
    break;
  }
  return exit;
}

int ResumeJob(Program& program, const JobResumeFlags& flags) {
  v1::ResumeJobRequest request;
  if (!flags.ladder.empty()) {
    const absl::StatusOr<std::vector<v1::LadderLevel>> ladder = ParseLadder(flags.ladder);
    if (!ladder.ok()) return program.Fail(ladder.status());
    if (ladder->empty()) {
      return program.Fail(kCliUsage,
                          "--ladder needs a level; `paceline job ladder JOB synchronous` gives the "
                          "ladder up when the job trains");
    }
    request.mutable_ladder()->Add(ladder->begin(), ladder->end());
  }
  request.set_job(flags.job);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_from(ForController(flags.from));
  request.set_ranks(flags.ranks);
  request.set_batch_per_rank(flags.batch_per_rank);
  request.set_accumulation_steps(flags.accumulation_steps);
  request.set_steps(flags.steps);
  const int unusable = CheckStart(program, flags.from);
  if (unusable != kCliOk) return unusable;
  v1::Job before;
  if (ChangesBatch(flags)) {
    v1::GetJobRequest get;
    get.set_job(flags.job);
    const grpc::Status status = program.client().GetJob(get, &before);
    if (!status.ok()) return program.Fail(status);
  }
  v1::Job job;
  const grpc::Status status = program.client().ResumeJob(request, &job);
  if (!status.ok()) return TellRefusal(program, status);
  if (ChangesBatch(flags)) {
    const std::string change = BatchChangeText(before.spec(), job.spec(), request);
    if (!change.empty()) program.Note(change);
  }
  return TellAcceptedJob(program, job, "resumed", flags.accepted);
}

}  // namespace

void AddJobResume(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobResumeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "resume", "Let a job that has ended train on from a checkpoint, also on other ranks");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_option("--from", flags->from,
                   std::string(kCheckpointHelp) + ". Default: the job's newest complete one");
  const auto number = [verb](const std::string& name, auto& value, const std::string& what) {
    const auto most = std::numeric_limits<std::decay_t<decltype(value)>>::max();
    verb->add_option(name, value, what + ". Default: as before")->check(WholeNumber(1, most));
  };
  number("--ranks", flags->ranks, "Number of ranks");
  number("--batch-per-rank", flags->batch_per_rank, "Samples per rank and forward pass");
  number("--accumulation-steps", flags->accumulation_steps,
         "Forward and backward passes per optimizer step");
  number("--steps", flags->steps, "Number of steps, those done included");
  verb->add_option("--ladder", flags->ladder,
                   "New levels of an hsgd job, as `paceline job ladder` takes them. Default: as "
                   "before");
  AddAcceptedJobFlags(*verb, &flags->accepted);
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ResumeJob(program, *flags); };
  });
}

}  // namespace paceline
