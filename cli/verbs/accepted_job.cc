#include "cli/verbs/accepted_job.h"

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/verbs/follow.h"

namespace paceline {

void AddAcceptedJobFlags(CLI::App& verb, AcceptedJobFlags* flags) {
  auto* wait = verb.add_flag("--wait", flags->wait, "Wait for the end; the exit code tells it");
  verb.add_flag("-f,--follow", flags->follow, "Show the progress until the end, then as --wait")
      ->excludes(wait);
  verb.add_flag("--parsable", flags->parsable, "Print the job's id and nothing else");
}

int TellAcceptedJob(Program& program, const v1::Job& job, const std::string& done,
                    const AcceptedJobFlags& flags) {
  const bool stay = flags.wait || flags.follow;
  if (flags.parsable || program.names()) {
    program.out() << job.id() << std::endl;
  } else if (program.json()) {
    if (!stay) program.PrintJson(job);
  } else {
    program.out() << done << " " << NeutralLine(job.spec().name()) << " (" << job.id() << ")"
                  << std::endl;
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

}  // namespace paceline
