// paceline job why, advise, apply and decisions: obstacles of jobs, and remedies.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/reported_once.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/straggler/remedy_page.h"
#include "proto/job.pb.h"
#include "proto/straggler.pb.h"

namespace paceline {
namespace {

int TellWhy(Program& program, const std::string& name) {
  v1::WhyRequest request;
  request.set_job(name);
  v1::WhyResponse response;
  const grpc::Status status = program.client().Call(methods::kJobWhy, request, &response);
  return TellAnswer(program, status, response, [&](std::ostream& out) {
    ReportedOnce reported;
    for (const std::string& obstacle : response.obstacles()) {
      out << reported.Tell(SanitizeLine(obstacle)) << "\n";
    }
    if (response.obstacles().empty()) out << "Nothing is in its way.\n";
  });
}

void AddJobWhy(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "why", "Tell why a job waits, or what it lacks while it runs: a line per obstacle");
  AddJob(*verb, *name);
  RunWith(*verb, program, name, TellWhy);
}

int TellAdvice(Program& program, const std::string& name) {
  v1::AdviseRequest request;
  request.set_job(name);
  v1::JobAdvice advice;
  const grpc::Status status = program.client().Call(methods::kJobAdvise, request, &advice);
  return TellAnswer(program, status, advice,
                    [&](std::ostream& out) { out << AdvicePage(advice, name, program.style()); });
}

void AddJobAdvise(CLI::App& parent, Program& program) {
  const auto name = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "advise", "Tell which ranks of a job are slow, what could be done about it, and why");
  AddJob(*verb, *name);
  RunWith(*verb, program, name, TellAdvice);
}

struct JobApplyFlags {
  std::string job;
  int64_t advice = 0;
  std::string request_id;
};

int ApplyAdvice(Program& program, const JobApplyFlags& flags) {
  v1::ApplyAdviceRequest request;
  request.set_job(flags.job);
  request.set_advice(flags.advice);
  request.set_by(program.user());
  request.set_request_id(RequestId(flags.request_id));
  if (request.by().empty()) return program.FailWithoutUser();
  v1::RemedyDecision decision;
  const grpc::Status status = program.client().Call(methods::kJobApplyAdvice, request, &decision);
  return TellAnswer(program, status, decision, [&](std::ostream& out) {
    out << DecisionLine(decision, program.style()) << "\n";
  });
}

void AddJobApply(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobApplyFlags>();
  CLI::App* verb = parent.add_subcommand(
      "apply", "Have what `job advise` lists carried out, while the job trains");
  AddJob(*verb, flags->job);
  verb->add_option("ADVICE", flags->advice, "Its number")
      ->required()
      ->check(WholeNumber(1, INT64_MAX));
  AddOwner(*verb, program);
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, ApplyAdvice);
}

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
  const grpc::Status status =
      program.client().Call(methods::kJobListDecisions, request, &decisions);
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

void AddJobDecisions(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobDecisionsFlags>();
  CLI::App* verb = parent.add_subcommand(
      "decisions", "List what was advised and done about slow ranks, and whether it helped");
  AddJob(*verb, flags->job);
  verb->add_option("ID", flags->id, "Only this one, with all that it rests on. Default: all")
      ->check(WholeNumber(1, INT64_MAX));
  RunWith(*verb, program, flags, TellDecisions);
}

}  // namespace

void AddJobAdvice(CLI::App& parent, Program& program) {
  AddJobWhy(parent, program);
  AddJobAdvise(parent, program);
  AddJobApply(parent, program);
  AddJobDecisions(parent, program);
}

}  // namespace paceline
