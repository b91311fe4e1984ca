// paceline job events and metrics: how jobs came to be as they are.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/rpc/resumption.h"
#include "cli/text/utf8_locale.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/curves_page.h"
#include "cli/view/job/event_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/job/series_page.h"
#include "proto/job.pb.h"
#include "proto/job_history.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {
namespace {

struct JobEventsFlags {
  std::string job;
  int64_t after = 0;
  int tail = 0;
  bool follow = false;
  bool warnings = false;
};

bool IsWanted(const v1::JobHistoryEvent& event, const JobEventsFlags& flags) {
  return !flags.warnings || event.warning();
}

void PrintEvent(Program& program, const v1::JobHistoryEvent& event) {
  if (program.json()) return program.PrintJsonLine(event);
  program.out() << EventLines(event, program.style()) << std::flush;
}

// Keeps only the events asked for.
void ChooseEvents(const JobEventsFlags& flags, v1::JobHistory* history) {
  auto& events = *history->mutable_events();
  events.erase(std::remove_if(events.begin(), events.end(),
                              [&](const auto& event) { return !IsWanted(event, flags); }),
               events.end());
  if (flags.tail > 0 && events.size() > flags.tail) {
    events.erase(events.begin(), events.end() - flags.tail);
  }
}

// Prints each event after `last`, until the job has ended.
int FollowEvents(Program& program, const std::string& job_id, int64_t last,
                 const JobEventsFlags& flags) {
  Client& client = program.client();
  Resumption resumption(client, absl::InfiniteFuture(),
                        [&](const grpc::Status&) { program.Note(program.OutageText()); });
  // The controller was there a moment ago, so even an immediate outage is waited out.
  resumption.Arrived();
  grpc::Status status;
  do {
    v1::WatchJobHistoryRequest request;
    request.set_job(job_id);
    request.set_after_id(last);
    status =
        client.Stream(methods::kJobHistoryWatch, request, [&](const v1::JobHistoryEvent& event) {
          resumption.Arrived();
          last = event.id();
          if (IsWanted(event, flags)) PrintEvent(program, event);
          return program.out().good();
        });
  } while (resumption.Again(&status));
  return status.ok() ? kCliOk : program.Fail(status);
}

int ShowEvents(Program& program, const JobEventsFlags& flags) {
  v1::GetJobHistoryRequest request;
  request.set_job(flags.job);
  request.set_after_id(flags.after);
  v1::JobHistory history;
  const grpc::Status status = program.client().Call(methods::kJobHistoryGet, request, &history);
  if (!status.ok()) return program.Fail(status);
  const int64_t last = history.events().empty() ? flags.after : history.events().rbegin()->id();
  ChooseEvents(flags, &history);
  if (program.json() && !flags.follow) {
    program.PrintJson(history);
    return kCliOk;
  }
  if (!program.json()) {
    if (history.events().empty() && !flags.follow) {
      program.Note("nothing is known to have happened");
      return kCliOk;
    }
    if (!program.flags.no_headers) program.out() << EventHeading(program.style());
  }
  for (const v1::JobHistoryEvent& event : history.events()) PrintEvent(program, event);
  return flags.follow ? FollowEvents(program, history.job_id(), last, flags) : kCliOk;
}

void AddJobEvents(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobEventsFlags>();
  CLI::App* verb = parent.add_subcommand("events", "Show what happened to a job, and when");
  AddJob(*verb, flags->job);
  verb->add_flag("-f,--follow", flags->follow, "Go on until the job has ended");
  verb->add_flag("--warnings", flags->warnings, "Only what did not go well");
  verb->add_option("--tail", flags->tail, "Begin with the newest so many. Default: all")
      ->check(WholeNumber(1, 1000000));
  verb->add_option("--after", flags->after, "Only events after the one of this id")
      ->check(WholeNumber(0, INT64_MAX));
  RunWith(*verb, program, flags, ShowEvents);
}

struct JobMetricsFlags {
  std::string job;
  double minutes = 10;
  bool run = false;
  bool csv = false;
};

// Shows the whole run.
int ShowCurves(Program& program, const v1::Job& job, bool csv) {
  v1::GetJobCurvesRequest request;
  request.set_job(job.id());
  v1::JobCurves curves;
  const grpc::Status status = program.client().Call(methods::kTelemetryGetCurves, request, &curves);
  if (!status.ok()) return program.Fail(status);
  if (csv) {
    program.out() << CurvesCsv(curves) << std::flush;
  } else if (program.json()) {
    program.PrintJson(curves);
  }
  if (curves.curves().empty()) {
    program.Note(absl::StrCat(job.id(), " is ", StateText(job.state()),
                              ", and no curves of it are kept: they begin with its first step, and "
                              "anew when the controller restarts or another one takes over"));
    return kCliOk;
  }
  if (csv || program.json()) return kCliOk;
  const bool utf8 = SpeaksUtf8([&](const char* name) { return program.Variable(name); });
  program.out() << CurvesPage(curves, program.style(), utf8) << std::flush;
  return kCliOk;
}

int ShowMetrics(Program& program, const JobMetricsFlags& flags) {
  v1::Job job;
  grpc::Status status = GetJob(program, flags.job, &job);
  if (!status.ok()) return program.Fail(status);
  if (flags.run || flags.csv) return ShowCurves(program, job, flags.csv);
  v1::GetJobSeriesRequest request;
  request.set_job(job.id());
  request.set_minutes(flags.minutes);
  v1::JobSeries series;
  status = program.client().Call(methods::kTelemetryGetSeries, request, &series);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(series);
    return kCliOk;
  }
  const bool utf8 = SpeaksUtf8([&](const char* name) { return program.Variable(name); });
  const std::string page = SeriesPage(series, program.style(), utf8);
  if (page.empty()) {
    program.Note(absl::StrCat(job.id(), " is ", StateText(job.state()),
                              ", and nothing of its last minutes is known"));
    return kCliOk;
  }
  program.out() << JobNameText(job) << " is " << StateText(job.state()) << ", step "
                << StepsDoneText(job, " of ");
  if (series.has_end_time()) {
    program.out() << "; it ended at " << MomentText(TimeOf(true, series.end_time()), absl::Now());
  }
  program.out() << "\n\n" << page << std::flush;
  return kCliOk;
}

void AddJobMetrics(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobMetricsFlags>();
  CLI::App* verb = parent.add_subcommand(
      "metrics",
      "Show how step time, throughput, loss, MFU and waits of a job went lately, and "
      "what its script reports");
  AddJob(*verb, flags->job);
  CLI::Option* minutes =
      verb->add_option("--minutes", flags->minutes, "The last so many; 0: all that are kept")
          ->check(Number(0, 1e6))
          ->capture_default_str();
  verb->add_flag("--run", flags->run, "The whole run, and evaluations, learning rate")
      ->excludes(minutes);
  verb->add_flag("--csv", flags->csv, "The whole run as CSV: a line per number and point")
      ->excludes(minutes);
  RunWith(*verb, program, flags, ShowMetrics);
}

}  // namespace

void AddJobHistory(CLI::App& parent, Program& program) {
  AddJobEvents(parent, program);
  AddJobMetrics(parent, program);
}

}  // namespace paceline
