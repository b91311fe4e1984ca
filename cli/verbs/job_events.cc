// paceline job events JOB
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "cli/rpc/resumption.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/event_text.h"
#include "proto/job_history.pb.h"

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

void Print(Program& program, const v1::JobHistoryEvent& event) {
  if (program.json()) return program.PrintJsonLine(event);
  program.out() << EventLines(event, program.style()) << std::flush;
}

// Leaves those that are asked for.
void Choose(const JobEventsFlags& flags, v1::JobHistory* history) {
  auto& events = *history->mutable_events();
  events.erase(std::remove_if(events.begin(), events.end(),
                              [&](const auto& event) { return !IsWanted(event, flags); }),
               events.end());
  if (flags.tail > 0 && events.size() > flags.tail) {
    events.erase(events.begin(), events.end() - flags.tail);
  }
}

// Each event after `last`, until the job has ended.
int Follow(Program& program, const std::string& job_id, int64_t last, const JobEventsFlags& flags) {
  Client& client = program.client();
  Resumption resumption(client, absl::InfiniteFuture(),
                        [&](const grpc::Status&) { program.Note(program.OutageText()); });
  // It was there a moment ago: an outage at once is waited for, too.
  resumption.Arrived();
  grpc::Status status;
  do {
    v1::WatchJobHistoryRequest request;
    request.set_job(job_id);
    request.set_after_id(last);
    status = client.WatchJobHistory(request, [&](const v1::JobHistoryEvent& event) {
      resumption.Arrived();
      last = event.id();
      if (IsWanted(event, flags)) Print(program, event);
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
  const grpc::Status status = program.client().GetJobHistory(request, &history);
  if (!status.ok()) return program.Fail(status);
  const int64_t last = history.events().empty() ? flags.after : history.events().rbegin()->id();
  Choose(flags, &history);
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
  for (const v1::JobHistoryEvent& event : history.events()) Print(program, event);
  return flags.follow ? Follow(program, history.job_id(), last, flags) : kCliOk;
}

}  // namespace

void AddJobEvents(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobEventsFlags>();
  CLI::App* verb = parent.add_subcommand("events", "Show what happened to a job, and when");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  verb->add_flag("-f,--follow", flags->follow, "Go on until the job has ended");
  verb->add_flag("--warnings", flags->warnings, "Only what did not go well");
  verb->add_option("--tail", flags->tail, "Begin with the newest so many. Default: all")
      ->check(WholeNumber(1, 1000000));
  verb->add_option("--after", flags->after, "Only events after the one of this id")
      ->check(WholeNumber(0, INT64_MAX));
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ShowEvents(program, *flags); };
  });
}

}  // namespace paceline
