// paceline submit FILE
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/job_file/job_file.h"
#include "cli/rpc/error_text.h"
#include "cli/text/neutral.h"
#include "cli/verbs/follow.h"
#include "cli/verbs/verbs.h"
#include "common/uuid.h"

namespace paceline {
namespace {

struct SubmitFlags {
  std::string file;
  bool wait = false;
  bool follow = false;
  bool dry_run = false;
  bool parsable = false;
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

int Submit(Program& program, const SubmitFlags& flags) {
  const absl::StatusOr<JobFile> file = ReadJobFile(flags.file);
  if (!file.ok()) return program.Fail(file.status());
  if (!file->problems.empty()) return TellProblems(program, flags.file, *file);

  v1::SubmitJobRequest request;
  *request.mutable_spec() = file->spec;
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
  const bool stay = flags.wait || flags.follow;
  if (flags.parsable) {
    program.out() << job.id() << std::endl;
  } else if (program.json()) {
    if (!stay) program.PrintJson(job);
  } else {
    program.out() << "submitted " << NeutralLine(job.spec().name()) << " (" << job.id() << ")"
                  << std::endl;
    if (!stay) {
      program.Note(absl::StrCat("next: paceline job watch ", job.id()));
      program.Note(absl::StrCat("      paceline job logs -f ", job.id()));
    }
  }
  if (!stay) return kCliOk;
  FollowOptions options;
  options.progress = flags.follow && !flags.parsable;
  options.silent = flags.parsable;
  return FollowJob(program, job.id(), options);
}

}  // namespace

void AddSubmit(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<SubmitFlags>();
  CLI::App* verb = parent.add_subcommand("submit", "Submit the job of a job file");
  verb->add_option("FILE", flags->file, "Job file (docs/job-file.md)")->required();
  auto* wait = verb->add_flag("--wait", flags->wait, "Wait for the end; the exit code tells it");
  verb->add_flag("-f,--follow", flags->follow, "Show the progress until the end, then as --wait")
      ->excludes(wait);
  verb->add_flag("--dry-run", flags->dry_run,
                 "Only ask whether it would be taken, and print it with all defaults");
  verb->add_flag("--parsable", flags->parsable, "Print the job's id and nothing else");
  verb->add_option(
      "--request-id", flags->request_id,
      "Name of this request, 1 to 64 characters, such as a UUID: a repetition makes no "
      "second job. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return Submit(program, *flags); };
  });
}

}  // namespace paceline
