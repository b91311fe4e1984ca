// paceline job decisions JOB [ID]
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/decision_page.h"
#include "proto/straggler.pb.h"

namespace paceline {
namespace {

struct JobDecisionsFlags {
  std::string job;
  int64_t id = 0;  // 0: all.
};

int TellDecision(Program& program, const v1::ListDecisionsResponse& decisions,
                 const JobDecisionsFlags& flags) {
  for (const v1::RemedyDecision& decision : decisions.decisions()) {
    if (decision.id() != flags.id) continue;
    if (program.json()) {
      program.PrintJson(decision);
    } else {
      program.out() << DecisionPage(decision, absl::Now(), program.style()) << std::flush;
    }
    return kCliOk;
  }
  return program.Fail(kCliNotFound,
                      absl::StrCat("there is no decision ", flags.id, ": `paceline job decisions ",
                                   flags.job, "` lists those that are kept"));
}

int TellDecisions(Program& program, const JobDecisionsFlags& flags) {
  v1::ListDecisionsRequest request;
  request.set_job(flags.job);
  v1::ListDecisionsResponse decisions;
  const grpc::Status status = program.client().ListDecisions(request, &decisions);
  if (!status.ok()) return program.Fail(status);
  if (flags.id != 0) return TellDecision(program, decisions, flags);
  if (program.json()) {
    program.PrintJson(decisions);
  } else if (decisions.decisions().empty()) {
    program.Note("nothing was decided; `paceline job advise` tells what is measured");
  } else {
    program.out() << DecisionTable(decisions, absl::Now(), program.style()) << std::flush;
  }
  return kCliOk;
}

}  // namespace

void AddJobDecisions(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobDecisionsFlags>();
  CLI::App* verb = parent.add_subcommand(
      "decisions", "List what was advised and done about slow ranks, and whether it helped");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_option("ID", flags->id, "Only this one, with all that it rests on. Default: all")
      ->check(WholeNumber(1, INT64_MAX));
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return TellDecisions(program, *flags); };
  });
}

}  // namespace paceline
