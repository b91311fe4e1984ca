// paceline submit and paceline job resume: starting jobs, and starting them again.
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/job_file/job_file.h"
#include "cli/rpc/error_text.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/checkpoint/checkpoint_location.h"
#include "cli/verbs/job/job_follow.h"
#include "cli/verbs/job/job_problems.h"
#include "cli/verbs/job/ship.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/job_page.h"
#include "cli/view/job/job_text.h"
#include "common/core/compiled_files.h"
#include "common/core/object_url.h"
#include "common/job_spec/ladder_text.h"
#include "common/token_file/token_file.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

struct AcceptedJobFlags {
  bool wait = false;
  bool follow = false;
  bool parsable = false;
};

// `flags` outlives the parser.
void AddAcceptedJobFlags(CLI::App& verb, AcceptedJobFlags* flags) {
  auto* wait = verb.add_flag("--wait", flags->wait, "Wait for the end; the exit code tells it");
  verb.add_flag("-f,--follow", flags->follow, "Show the progress until the end, then as --wait")
      ->excludes(wait);
  verb.add_flag("--parsable", flags->parsable, "Print the job's id and nothing else");
}

// What follows after the controller has accepted a job: prints its id, and follows the job if
// wanted. `done`: what was done, "submitted". Returns the exit code.
int TellAcceptedJob(Program& program, const v1::Job& job, const std::string& done,
                    const AcceptedJobFlags& flags) {
  const bool stay = flags.wait || flags.follow;
  if (flags.parsable || program.names()) {
    program.out() << job.id() << std::endl;
  } else if (program.json()) {
    if (!stay) program.PrintJson(job);
  } else {
    program.out() << done << " " << SanitizeLine(job.spec().name()) << " (" << job.id() << ")"
                  << std::endl;
    if (!KeepsWeights(job.spec())) {
      program.Note(
          "the weights will not be kept: the job file has neither checkpoint.directory nor "
          "export_final");
    }
    if (job.spec().has_tracker()) {
      program.Note(
          absl::StrCat("its curves go to its trackers while this runs: python3 -m "
                       "paceline.track ",
                       job.id()));
    }
    if (!stay) {
      program.Note(absl::StrCat("next: paceline job watch ", job.id()));
      program.Note(absl::StrCat("      paceline job logs -f ", job.id()));
    }
  }
  if (!stay) return kCliOk;
  FollowOptions options;
  options.progress = flags.follow && !flags.parsable && !program.names();
  options.silent = flags.parsable || program.names();
  return FollowJob(program, job.id(), options);
}

struct SubmitFlags {
  std::string file;
  std::string from;
  std::string from_weights;
  bool ship = false;
  bool dry_run = false;
  AcceptedJobFlags accepted;
  std::string request_id;
};

// A job has only one beginning: one that a flag names replaces those in the file.
void SetBeginning(const SubmitFlags& flags, v1::JobSpec* spec) {
  if (flags.from.empty() && flags.from_weights.empty()) return;
  spec->set_resume_from(ForController(flags.from));
  spec->set_init_from(flags.from_weights.empty() ? "" : AbsolutePath(flags.from_weights));
}

int CheckBeginning(Program& program, const SubmitFlags& flags) {
  if (!flags.from.empty()) return CheckStart(program, flags.from);
  return flags.from_weights.empty() ? kCliOk : CheckWeights(program, flags.from_weights);
}

// Reports files that a job reads and this machine lacks. Only a note: nodes may have them.
void TellMissingFiles(Program& program, const v1::JobSpec& spec) {
  std::vector<std::pair<std::string, std::string>> files = {
      {"data.train", spec.data().train()},
      {"data.eval", spec.data().eval()},
      {"model.file", spec.model().torchscript().file()},
      {"model.file", spec.model().compiled().file()},
      {"init_from", spec.init_from()}};
  if (spec.model().has_compiled()) {
    files.emplace_back("model.file", CompiledWeightsOf(spec.model().compiled().file()));
  }
  for (int i = 0; i < spec.data().sources_size(); ++i) {
    files.emplace_back(absl::StrCat("data.train[", i, "].path"), spec.data().sources(i).path());
  }
  for (const auto& [key, path] : files) {
    if (path.empty() || IsObjectUrl(path) || access(path.c_str(), F_OK) == 0) continue;
    if (errno != ENOENT && errno != ENOTDIR) continue;
    program.Note(absl::StrCat("warning: ", key, ": ", SanitizeLine(path),
                              " is not on this machine; every node has to have it there"));
  }
}

// Of a token file that is on this machine and has one; else empty.
std::string HashOfFile(const std::string& path) {
  if (path.empty() || IsObjectUrl(path)) return "";
  const absl::StatusOr<TokenFile> file = TokenFile::Open(path);
  return file.ok() ? file->hash() : "";
}

// Writes in the hashes of the training data, so that the job says what it was made from, and ranks
// take no other file.
void SetHashes(v1::Data* data) {
  if (data->train_hash().empty()) data->set_train_hash(HashOfFile(data->train()));
  for (v1::DataSource& source : *data->mutable_sources()) {
    if (source.hash().empty()) source.set_hash(HashOfFile(source.path()));
  }
}

int Submit(Program& program, const SubmitFlags& flags) {
  const absl::StatusOr<JobFile> file = ReadJobFile(flags.file);
  if (!file.ok()) return program.Fail(file.status());
  if (!file->problems.empty()) return TellProblems(program, flags.file, *file);
  const int unusable = CheckBeginning(program, flags);
  if (unusable != kCliOk) return unusable;

  v1::SubmitJobRequest request;
  *request.mutable_spec() = file->spec;
  SetBeginning(flags, request.mutable_spec());
  if (request.spec().has_data()) SetHashes(request.mutable_spec()->mutable_data());
  std::string code;
  if (flags.ship) {
    absl::StatusOr<std::string> shipped = Ship(program, request.mutable_spec());
    if (!shipped.ok()) return program.Fail(shipped.status());
    code = *std::move(shipped);
  }
  request.set_request_id(RequestId(flags.request_id));
  request.set_validate_only(flags.dry_run);
  v1::Job job;
  const grpc::Status status = SubmitShipped(program, request, code, &job);
  if (!status.ok()) return TellRefusal(program, flags.file, *file, status);

  TellMissingFiles(program, request.spec());
  if (flags.dry_run) {
    if (program.json()) {
      program.PrintJson(request);
    } else {
      program.Note("the controller would take this job; nothing was submitted");
      program.out() << SpecAsJobFile(request.spec()) << std::flush;
    }
    return kCliOk;
  }
  return TellAcceptedJob(program, job, "submitted", flags.accepted);
}

struct JobResumeFlags {
  std::string job;
  std::string from;
  int ranks = 0;
  int batch_per_rank = 0;
  int accumulation_steps = 0;
  int64_t steps = 0;
  bool keep_schedule = false;
  std::string ladder;
  std::string request_id;
  AcceptedJobFlags accepted;
};

bool ChangesBatch(const JobResumeFlags& flags) {
  return flags.ranks != 0 || flags.batch_per_rank != 0 || flags.accumulation_steps != 0;
}

int TellLadderRefusal(Program& program, const grpc::Status& status) {
  const int exit = program.Fail(status);
  for (const FieldViolation& violation : FieldViolations(status)) {
    if (!absl::StrContains(violation.field, "hsgd.ladder")) continue;
    program.err() << "  --ladder gives the job one that fits, as `paceline job ladder` takes it"
                  << std::endl;
    break;
  }
  return exit;
}

int64_t CosineEnd(const v1::JobSpec& spec) {
  if (!spec.schedule().has_cosine()) return 0;
  const int64_t end = spec.schedule().cosine().steps();
  return end != 0 ? end : spec.steps();
}

void TellScheduleChange(Program& program, const v1::JobSpec& before, const v1::JobSpec& now) {
  if (before.steps() == 0 || CosineEnd(before) == CosineEnd(now)) return;
  program.Note(absl::StrCat("the learning rate jumps: its cosine now ends after step ",
                            CosineEnd(now), " instead of ", CosineEnd(before),
                            "; `job resume --keep-schedule` leaves the end where it was"));
}

// schedule.scale_with_ranks measures the ranks against those that the job asks for.
void TellRankScaleChange(Program& program, const v1::JobSpec& before, const v1::JobSpec& now) {
  const v1::RankScale scale = now.schedule().scale_with_ranks();
  const bool scales = scale == v1::RANK_SCALE_LINEAR || scale == v1::RANK_SCALE_SQRT;
  if (!scales || before.ranks() == now.ranks()) return;
  const double ratio = static_cast<double>(before.ranks()) / now.ranks();
  program.Note(absl::StrFormat(
      "the learning rate jumps: optimizer.learning_rate is now that of %d ranks instead of %d "
      "(schedule.scale_with_ranks), so any number of ranks has %.3g times the rate that it had; "
      "`job resume` cannot change learning_rate, and a job submitted with --from can",
      now.ranks(), before.ranks(), scale == v1::RANK_SCALE_LINEAR ? ratio : std::sqrt(ratio)));
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
  request.set_request_id(RequestId(flags.request_id));
  request.set_from(ForController(flags.from));
  request.set_ranks(flags.ranks);
  request.set_batch_per_rank(flags.batch_per_rank);
  request.set_accumulation_steps(flags.accumulation_steps);
  request.set_steps(flags.steps);
  request.set_keep_schedule(flags.keep_schedule);
  const int unusable = CheckStart(program, flags.from);
  if (unusable != kCliOk) return unusable;
  v1::Job before;
  if (ChangesBatch(flags) || flags.steps != 0) {
    v1::GetJobRequest get;
    get.set_job(flags.job);
    const grpc::Status status = program.client().Call(methods::kJobGet, get, &before);
    if (!status.ok()) return program.Fail(status);
  }
  v1::Job job;
  const grpc::Status status = program.client().Call(methods::kJobResume, request, &job);
  if (!status.ok()) return TellLadderRefusal(program, status);
  if (ChangesBatch(flags)) {
    const std::string change = BatchChangeText(before.spec(), job.spec(), request);
    if (!change.empty()) program.Note(change);
  }
  TellScheduleChange(program, before.spec(), job.spec());
  if (flags.ranks != 0) TellRankScaleChange(program, before.spec(), job.spec());
  return TellAcceptedJob(program, job, "resumed", flags.accepted);
}

}  // namespace

void AddSubmit(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<SubmitFlags>();
  CLI::App* verb = parent.add_subcommand("submit", "Submit the job of a job file");
  verb->add_option("FILE", flags->file, "Job file (docs/job-file.md); - is standard input")
      ->check(PlainPath())
      ->required();
  auto* from =
      verb->add_option("--from", flags->from,
                       "Checkpoint to go on from, instead of what the file says: a name JOB, "
                       "JOB/STEP or JOB/STEP.gGENERATION, or a path (begins with / or .)")
          ->check(PlainPath());
  verb->add_option("--from-weights", flags->from_weights,
                   "Initial weights only, instead of what the file says: a safetensors or .pt "
                   "file, a directory in Hugging Face's layout, or a checkpoint's directory")
      ->check(PlainPath())
      ->excludes(from);
  verb->add_flag("--ship", flags->ship, kShipHelp);
  AddAcceptedJobFlags(*verb, &flags->accepted);
  verb->add_flag("--dry-run", flags->dry_run,
                 "Only ask whether it would be taken, and print it with all defaults");
  verb->add_option(
      "--request-id", flags->request_id,
      "Name of this request, 1 to 64 characters, such as a UUID: a repetition makes no "
      "second job. Default: a new one");
  RunWith(*verb, program, flags, Submit);
}

void AddJobResume(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobResumeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "resume", "Let a job that has ended train on from a checkpoint, also on other ranks");
  AddJob(*verb, flags->job);
  verb->add_option("--from", flags->from,
                   std::string(kCheckpointHelp) +
                       ". Default: the newest complete one since the last --from, else that one")
      ->check(PlainPath());
  const auto number = [verb](const std::string& name, auto& value, const std::string& what) {
    const auto most = std::numeric_limits<std::decay_t<decltype(value)>>::max();
    verb->add_option(name, value, what + ". Default: as before")->check(WholeNumber(1, most));
  };
  number("--ranks", flags->ranks, "Number of ranks");
  number("--batch-per-rank", flags->batch_per_rank, "Samples per rank and forward pass");
  number("--accumulation-steps", flags->accumulation_steps,
         "Forward and backward passes per optimizer step");
  number("--steps", flags->steps, "Number of steps, those done included");
  verb->add_flag("--keep-schedule", flags->keep_schedule,
                 "With --steps: the learning rate's cosine ends where it would have, and the rate "
                 "stays there. Default: it is stretched over all steps");
  verb->add_option("--ladder", flags->ladder,
                   "New levels of an hsgd job, as `paceline job ladder` takes them. Default: as "
                   "before");
  AddAcceptedJobFlags(*verb, &flags->accepted);
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, ResumeJob);
}

}  // namespace paceline
