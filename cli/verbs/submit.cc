// paceline submit FILE
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/job_file/job_file.h"
#include "cli/rpc/error_text.h"
#include "cli/text/neutral.h"
#include "cli/verbs/accepted_job.h"
#include "cli/verbs/checkpoint_place.h"
#include "cli/verbs/verbs.h"
#include "common/uuid.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

struct SubmitFlags {
  std::string file;
  std::string from;
  std::string from_weights;
  bool dry_run = false;
  AcceptedJobFlags accepted;
  std::string request_id;
};

std::string PlaceText(const std::string& file, FilePosition at) {
  return absl::StrCat(NeutralLine(file), ":", at.line, ":", at.column, ": ");
}

int TellProblems(Program& program, const std::string& file, const JobFile& job_file) {
  const size_t count = job_file.problems.size();
  program.err() << "error: " << NeutralLine(file) << " has "
                << (count == 1 ? "a problem" : absl::StrCat(count, " problems")) << "\n";
  for (const FileProblem& problem : job_file.problems) {
    program.err() << "  " << PlaceText(file, problem.position) << NeutralLine(problem.message)
                  << "\n";
  }
  program.err() << std::flush;
  return kCliUsage;
}

// What the server refused, at the places of the file that it is about.
int TellRefusal(Program& program, const std::string& file, const JobFile& job_file,
                const grpc::Status& status) {
  JobFile refused = job_file;
  for (const FieldViolation& violation : FieldViolations(status)) {
    refused.problems.push_back(
        {PositionOf(job_file, violation.field),
         absl::StrCat(KeyOfField(violation.field), " ", violation.description)});
  }
  return refused.problems.empty() ? program.Fail(status) : TellProblems(program, file, refused);
}

// A job begins from one thing: what a flag names takes the place of all that the file says.
void SetBeginning(const SubmitFlags& flags, v1::JobSpec* spec) {
  if (flags.from.empty() && flags.from_weights.empty()) return;
  spec->set_resume_from(ForController(flags.from));
  spec->set_init_from(flags.from_weights.empty() ? "" : AbsolutePath(flags.from_weights));
}

int CheckBeginning(Program& program, const SubmitFlags& flags) {
  if (!flags.from.empty()) return CheckStart(program, flags.from);
  return flags.from_weights.empty() ? kCliOk : CheckWeights(program, flags.from_weights);
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
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_validate_only(flags.dry_run);
  v1::Job job;
  const grpc::Status status = program.client().Submit(request, &job);
  if (!status.ok()) return TellRefusal(program, flags.file, *file, status);

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

}  // namespace

void AddSubmit(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<SubmitFlags>();
  CLI::App* verb = parent.add_subcommand("submit", "Submit the job of a job file");
  verb->add_option("FILE", flags->file, "Job file (docs/job-file.md)")->required();
  auto* from =
      verb->add_option("--from", flags->from,
                       "Checkpoint to go on from, instead of what the file says: a name JOB, "
                       "JOB/STEP or JOB/STEP.gGENERATION, or a path (begins with / or .)");
  verb->add_option("--from-weights", flags->from_weights,
                   "Initial weights only, instead of what the file says: a safetensors or .pt "
                   "file, a directory in Hugging Face's layout, or a checkpoint's directory")
      ->excludes(from);
  AddAcceptedJobFlags(*verb, &flags->accepted);
  verb->add_flag("--dry-run", flags->dry_run,
                 "Only ask whether it would be taken, and print it with all defaults");
  verb->add_option(
      "--request-id", flags->request_id,
      "Name of this request, 1 to 64 characters, such as a UUID: a repetition makes no "
      "second job. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return Submit(program, *flags); };
  });
}

}  // namespace paceline
