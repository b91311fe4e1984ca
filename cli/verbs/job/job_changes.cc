// paceline job label, ladder, mode, profile and cancel: changes of a job.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/rpc/watch.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/job/rank_log.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/program/watch_flag.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/figures_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/job/strategy_text.h"
#include "cli/view/page.h"
#include "common/core/status_macros.h"
#include "common/job_spec/ladder_text.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"

namespace paceline {
namespace {

// "digits (job-...): hsgd 2:2,8:all, plan version 2, since step 128".
std::string PlanText(const v1::Job& job) {
  const v1::JobPlan& plan = job.plan();
  std::string text = absl::StrCat(JobNameText(job), ": ", StrategyText(plan.strategy()),
                                  ", plan version ", plan.version(), ", ");
  if (plan.active_version() == plan.version()) {
    absl::StrAppend(&text, "since step ", plan.active_since_step());
  } else if (plan.active_version() > 0) {
    absl::StrAppend(&text, "not taken up yet: plan version ", plan.active_version(), " since step ",
                    plan.active_since_step());
  } else {
    absl::StrAppend(&text, "not taken up yet");
  }
  const std::string failure = PlanFailureText(job);
  if (!failure.empty()) absl::StrAppend(&text, "; ", failure);
  return text;
}

// Shows the plan, or the job as JSON.
int ShowPlan(Program& program, const v1::Job& job) {
  if (program.json()) {
    program.PrintJson(job);
  } else {
    program.out() << PlanText(job) << std::endl;
  }
  return kCliOk;
}

int ShowPlanOf(Program& program, const std::string& job) {
  v1::Job found;
  const grpc::Status status = GetJob(program, job, &found);
  return status.ok() ? ShowPlan(program, found) : program.Fail(status);
}

// Waits until all ranks train by the job's version, or one could not prepare it; then shows it.
int AwaitPlan(Program& program, v1::Job job) {
  const int64_t version = job.plan().version();
  const auto active = [&] { return job.plan().active_version() >= version; };
  JobWatch watch;
  watch.job_id = job.id();
  watch.each = [&](const v1::JobEvent& event) {
    if (event.type() == v1::DELETED) return false;
    job = event.job();
    return !active() && PlanFailureText(job).empty() && !HasEnded(job.state());
  };
  watch.on_outage = OutageNote(program);
  if (!active()) {
    const grpc::Status status = WatchJobs(program.client(), watch);
    if (!status.ok()) return program.Fail(status);
  }
  ShowPlan(program, job);
  if (active()) return kCliOk;
  const std::string failure = PlanFailureText(job);
  if (!failure.empty()) {
    return program.Fail(kCliFailed,
                        absl::StrCat("plan version ", version, " is not taken up: ", failure));
  }
  return program.Fail(
      kCliFailed,
      absl::StrCat(job.id(), " ended before its ranks took plan version ", version, " up"));
}

struct JobLabelFlags {
  std::string job;
  std::vector<std::string> changes;
  std::string description;
  std::string request_id;
  bool describes = false;  // --description is given, if only as "".
};

int LabelJob(Program& program, const JobLabelFlags& flags) {
  v1::Job job;
  grpc::Status status;
  if (flags.changes.empty() && !flags.describes) {
    if (!flags.request_id.empty()) {
      return program.Fail(kCliUsage,
                          "nothing is to be changed; give KEY=VALUE, KEY- or --description");
    }
    status = GetJob(program, flags.job, &job);
  } else {
    v1::ChangeLabelsRequest request;
    request.set_job(flags.job);
    request.set_request_id(RequestId(flags.request_id));
    for (const std::string& change : flags.changes) request.add_labels(change);
    if (flags.describes) request.set_description(flags.description);
    status = program.client().Call(methods::kJobChangeLabels, request, &job);
  }
  return TellAnswer(program, status, job, [&](std::ostream& out) {
    const std::string labels = SanitizeLine(LabelsText(job.spec()));
    out << JobNameText(job) << ": " << (labels.empty() ? "no labels" : labels) << std::endl;
    if (!job.spec().description().empty()) out << Indented(job.spec().description(), "  ");
  });
}

void AddJobLabel(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobLabelFlags>();
  CLI::App* verb = parent.add_subcommand(
      "label", "Show or change the labels and the description of a job, also after its end");
  AddJob(*verb, flags->job);
  verb->add_option("CHANGE", flags->changes,
                   "KEY=VALUE sets a label, KEY- removes one. Default: show them");
  verb->add_option("--description", flags->description,
                   "What the job is for; \"\" removes it. Default: as it is")
      ->each([flags](const std::string&) { flags->describes = true; });
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, LabelJob);
}

struct JobLadderFlags {
  std::string job;
  std::string ladder;
  std::string request_id;
  bool wait = false;
};

int ChangeLadder(Program& program, const JobLadderFlags& flags) {
  if (flags.ladder.empty()) return ShowPlanOf(program, flags.job);
  const absl::StatusOr<std::vector<v1::LadderLevel>> ladder = ParseLadder(flags.ladder);
  if (!ladder.ok()) return program.Fail(ladder.status());
  v1::ChangeLadderRequest request;
  request.set_job(flags.job);
  request.set_request_id(RequestId(flags.request_id));
  request.mutable_ladder()->Add(ladder->begin(), ladder->end());
  v1::Job job;
  const grpc::Status status = program.client().Call(methods::kJobChangeLadder, request, &job);
  if (!status.ok()) return program.Fail(status);
  return flags.wait ? AwaitPlan(program, std::move(job)) : ShowPlan(program, job);
}

void AddJobLadder(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobLadderFlags>();
  CLI::App* verb =
      parent.add_subcommand("ladder", "Show or change the ladder of a job, also while it trains");
  AddJob(*verb, flags->job);
  auto* ladder =
      verb->add_option("LADDER", flags->ladder,
                       "New levels PERIOD:SIZE or PERIOD:node|rack|all, each with :bf16, "
                       ":fp16, :fp8 or :int8 if wanted, and with an outer "
                       "step :nesterov or :slowmo, and :int4 before it, such as 2:2,4:4,8:all or "
                       "500:all:nesterov/0.7/0.9 (streamed: "
                       "500:all:nesterov/0.7/0.9/FRAGMENTS/DELAY/ALPHA); or synchronous: "
                       "none. Default: show the present one");
  auto* wait = verb->add_flag("--wait", flags->wait, "Wait until all ranks have taken it up");
  wait->needs(ladder);
  AddRequestId(*verb, flags->request_id)->needs(ladder);
  RunWith(*verb, program, flags, ChangeLadder);
}

struct JobModeFlags {
  std::string job;
  std::string mode;
  std::string window;
  std::string optimizer_state;
  std::string request_id;
  bool wait = false;

  bool changes() const { return !mode.empty() || !window.empty() || !optimizer_state.empty(); }
};

absl::StatusOr<v1::ChangeModeRequest> RequestOf(const JobModeFlags& flags) {
  v1::ChangeModeRequest request;
  request.set_job(flags.job);
  request.set_request_id(RequestId(flags.request_id));
  // The parser only accepts known values.
  if (!flags.mode.empty()) {
    v1::SlipstreamMode mode = v1::SLIPSTREAM_UNSPECIFIED;
    v1::SlipstreamMode_Parse(absl::StrCat("SLIPSTREAM_", absl::AsciiStrToUpper(flags.mode)), &mode);
    request.set_mode(mode);
  }
  if (!flags.window.empty()) {
    PACELINE_ASSIGN_OR_RETURN(*request.mutable_window(), ParseWindow(flags.window));
  }
  if (!flags.optimizer_state.empty()) {
    request.set_optimizer_state(flags.optimizer_state == "average" ? v1::OPTIMIZER_STATE_AVERAGE
                                                                   : v1::OPTIMIZER_STATE_LOCAL);
  }
  return request;
}

int ChangeMode(Program& program, const JobModeFlags& flags) {
  if (!flags.changes()) {
    if (!flags.wait && flags.request_id.empty()) return ShowPlanOf(program, flags.job);
    return program.Fail(kCliUsage,
                        "nothing is to be changed; give a MODE, --window or --optimizer-state");
  }
  const absl::StatusOr<v1::ChangeModeRequest> request = RequestOf(flags);
  if (!request.ok()) return program.Fail(request.status());
  v1::Job job;
  const grpc::Status status = program.client().Call(methods::kJobChangeMode, *request, &job);
  if (!status.ok()) return program.Fail(status);
  return flags.wait ? AwaitPlan(program, std::move(job)) : ShowPlan(program, job);
}

void AddJobMode(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobModeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "mode", "Show or change the mode of a slipstream job, also while it trains");
  AddJob(*verb, flags->job);
  verb->add_option("MODE", flags->mode,
                   "sync: the mean of all gradients; drop: of those that are there in time; free: "
                   "no rank waits for another; pause: all stop for each round. Default: as it is")
      ->check(CLI::IsMember({"sync", "drop", "free", "pause"}));
  verb->add_option("--window", flags->window,
                   "Bounds in steps of the time from one round to the next in modes free and "
                   "pause, MIN:MAX, and of how far a rank may be ahead, :CAP, such as 2:16:64. "
                   "Default: as they are");
  verb->add_option("--optimizer-state", flags->optimizer_state,
                   "Whether momentum and moments are averaged too, in mode pause. Default: as it "
                   "is, local beside another MODE")
      ->check(CLI::IsMember({"local", "average"}));
  verb->add_flag("--wait", flags->wait, "Wait until all ranks have taken it up");
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, ChangeMode);
}

struct JobProfileFlags {
  std::string job;
  std::string ranks;
  std::string request_id;
  int steps = 3;
  bool memory = false;
  bool no_wait = false;
};

bool AllAnswered(const v1::Job& job) {
  return std::all_of(job.profile().ranks().begin(), job.profile().ranks().end(),
                     [&](int rank) { return HasAnswered(job, rank); });
}

// A change of the ranks withdraws the newest profile.
bool IsWithdrawn(const v1::Job& job) { return job.profile().ranks().empty(); }

bool AllWell(const v1::Job& job) {
  return AllAnswered(job) && !IsWithdrawn(job) &&
         std::all_of(job.ranks().begin(), job.ranks().end(), [&](const auto& r) {
           return r.profile().id() != job.profile().request().id() || r.profile().error().empty();
         });
}

std::string OrderText(const v1::Job& job) {
  const v1::ProfileRequest& request = job.profile().request();
  return absl::StrCat("profile ", request.id(), " of ", JobNameText(job), ": steps ",
                      request.first_step(), " to ", request.first_step() + request.steps() - 1,
                      " on ranks ", absl::StrJoin(job.profile().ranks(), ","));
}

int ProfileJob(Program& program, const JobProfileFlags& flags) {
  v1::ProfileJobRequest request;
  request.set_job(flags.job);
  request.set_request_id(RequestId(flags.request_id));
  request.set_steps(flags.steps);
  request.set_memory(flags.memory);
  const std::vector<int> ranks = ParseRanks(flags.ranks);
  request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  v1::Job job;
  grpc::Status status = program.client().Call(methods::kJobProfile, request, &job);
  if (!status.ok()) return program.Fail(status);
  if (flags.no_wait) {
    if (program.json()) {
      program.PrintJson(job);
    } else {
      program.out() << OrderText(job) << std::endl;
    }
    return kCliOk;
  }
  program.Note(OrderText(job));
  const int64_t id = job.profile().request().id();
  JobWatch watch;
  watch.job_id = job.id();
  watch.each = [&](const v1::JobEvent& event) {
    // Somebody else may ask for the next profile once this one is done.
    if (event.type() == v1::DELETED || event.job().profile().request().id() != id) return false;
    job = event.job();
    return !AllAnswered(job) && !HasEnded(job.state());
  };
  watch.on_outage = OutageNote(program);
  if (!AllAnswered(job)) status = WatchJobs(program.client(), watch);
  if (!status.ok()) return program.Fail(status);
  if (IsWithdrawn(job)) program.Note("no profile: the job's ranks changed meanwhile; ask again");
  if (program.json()) {
    program.PrintJson(job);
  } else if (!IsWithdrawn(job)) {
    const PageStyle style = program.style();
    program.out() << ProfileTable(job, style.width, style.colours) << std::flush;
  }
  return AllWell(job) ? kCliOk : kCliFailed;
}

void AddJobProfile(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobProfileFlags>();
  CLI::App* verb = parent.add_subcommand(
      "profile", "Trace the same few steps on ranks of a running job, for Chrome's trace viewer");
  AddJob(*verb, flags->job);
  verb->add_option("--steps", flags->steps, "Steps to trace")
      ->check(WholeNumber(1, 100))
      ->capture_default_str();
  verb->add_option("--ranks", flags->ranks, "Ranks such as 0 or 0,3-7. Default: all")
      ->check([](const std::string& text) {
        return ParseRanks(text).empty() ? "takes ranks such as 0 or 0,3-7" : std::string();
      });
  verb->add_flag("--memory", flags->memory, "A memory snapshot too; device cuda only");
  verb->add_flag("--no-wait", flags->no_wait, "Do not wait for the traces");
  AddRequestId(*verb, flags->request_id);
  RunWith(*verb, program, flags, ProfileJob);
}

struct JobCancelFlags {
  std::vector<std::string> jobs;
  std::string reason;
  std::string request_id;
  double grace_s = 0;
  bool save = false;
};

int CancelJob(Program& program, const JobCancelFlags& flags, const std::string& name) {
  v1::CancelJobRequest request;
  request.set_job(name);
  request.set_request_id(RequestId(flags.request_id));
  request.set_reason(flags.reason);
  request.set_grace_s(flags.grace_s);
  request.set_save(flags.save);
  v1::Job job;
  const grpc::Status status = program.client().Call(methods::kJobCancel, request, &job);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJsonLine(job);
    return kCliOk;
  }
  if (flags.save && (job.state() == v1::RUNNING || job.state() == v1::STARTING)) {
    program.out() << JobNameText(job) << " saves a checkpoint and then ends; until then it is "
                  << StateText(job.state()) << std::endl;
    program.Note(absl::StrCat("next: paceline job watch ", SanitizeLine(job.id())));
    return kCliOk;
  }
  const bool ended = HasEnded(job.state()) && job.state() != v1::CANCELLED;
  program.out() << JobNameText(job) << (ended ? " had ended: " : " is ") << StateText(job.state())
                << std::endl;
  return kCliOk;
}

int CancelJobs(Program& program, const JobCancelFlags& flags) {
  int first_failure = kCliOk;
  for (const std::string& name : flags.jobs) {
    const int exit = CancelJob(program, flags, name);
    if (first_failure == kCliOk) first_failure = exit;
  }
  return first_failure;
}

void AddJobCancel(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobCancelFlags>();
  CLI::App* verb = parent.add_subcommand("cancel", "End jobs before their time");
  verb->add_option("JOB", flags->jobs, "Id, unique beginning of an id, or name")->required();
  verb->add_option("--reason", flags->reason, "Shown with the job");
  verb->add_option("--grace", flags->grace_s,
                   "Seconds between asking a trainer to stop and killing it; 0: the "
                   "controller's 5 s")
      ->transform(Seconds(0));
  verb->add_flag("--save", flags->save,
                 "Save a checkpoint first, and end when it is complete or has failed");
  auto* id =
      verb->add_option("--request-id", flags->request_id,
                       "Name of this request, such as a UUID, for one job. Default: a new one");
  verb->callback([flags, id, &program] {
    if (flags->jobs.size() > 1 && id->count() > 0) {
      throw CLI::ValidationError("--request-id", "stands for one request: name one job");
    }
    program.action = [flags, &program] { return CancelJobs(program, *flags); };
  });
}

}  // namespace

void AddJobChanges(CLI::App& parent, Program& program) {
  AddJobLabel(parent, program);
  AddJobLadder(parent, program);
  AddJobMode(parent, program);
  AddJobProfile(parent, program);
  AddJobCancel(parent, program);
}

}  // namespace paceline
