// paceline job list
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/rpc/job_watch.h"
#include "cli/text/neutral.h"
#include "cli/verbs/live_view.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/verbs/watch_flag.h"
#include "cli/view/job_table.h"
#include "cli/view/job_text.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;

struct JobListFlags {
  std::vector<std::string> states;
  int limit = 50;
  bool watch = false;
};

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i) {
    names.push_back(absl::AsciiStrToLower(v1::JobState_Name(i)));
  }
  return names;
}

std::vector<v1::JobState> StatesOf(const JobListFlags& flags) {
  std::vector<v1::JobState> states;
  for (const std::string& name : flags.states) {
    v1::JobState_Parse(absl::AsciiStrToUpper(name), &states.emplace_back());
  }
  return states;
}

// Pages until there are `limit` jobs, or no more, with the revision of the first one: what changed
// while the others came is told by a watch from there.
grpc::Status FetchJobs(Program& program, const JobListFlags& flags, v1::ListJobsResponse* jobs) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : StatesOf(flags)) request.add_states(state);
  do {
    request.set_page_size(std::min(kMostPerPage, flags.limit - jobs->jobs_size()));
    v1::ListJobsResponse page;
    const grpc::Status status = program.client().ListJobs(request, &page);
    if (!status.ok()) return status;
    jobs->mutable_jobs()->MergeFrom(page.jobs());
    if (request.page_token().empty()) jobs->set_revision(page.revision());
    jobs->set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && jobs->jobs_size() < flags.limit);
  return grpc::Status::OK;
}

std::vector<v1::Job> JobsOf(const v1::ListJobsResponse& jobs) {
  return {jobs.jobs().begin(), jobs.jobs().end()};
}

bool IsWanted(const v1::Job& job, const std::vector<v1::JobState>& states) {
  return states.empty() || std::count(states.begin(), states.end(), job.state()) > 0;
}

// Newest first. A job that was listed later than it was so stays as it is.
void PutInto(std::vector<v1::Job>* jobs, const v1::JobEvent& event, bool wanted) {
  const v1::Job& job = event.job();
  const auto at = std::find_if(jobs->begin(), jobs->end(),
                               [&](const v1::Job& known) { return known.id() == job.id(); });
  const bool kept = wanted && event.type() != v1::DELETED;
  if (at != jobs->end() && event.type() != v1::DELETED && job.revision() < at->revision()) return;
  if (at != jobs->end() && kept) {
    *at = job;
  } else if (at != jobs->end()) {
    jobs->erase(at);
  } else if (kept) {
    const auto newer = [](const v1::Job& a, const v1::Job& b) {
      return TimeOf(true, a.create_time()) > TimeOf(true, b.create_time());
    };
    jobs->insert(std::upper_bound(jobs->begin(), jobs->end(), job, newer), job);
  }
}

// The table in place, until Ctrl-C. `first`: what is shown at first.
grpc::Status WatchTable(Program& program, const JobListFlags& flags,
                        const v1::ListJobsResponse& first) {
  const std::vector<v1::JobState> states = StatesOf(flags);
  std::vector<v1::Job> jobs = JobsOf(first);
  LiveView view(program, [&] {
    std::vector<v1::Job> shown = jobs;
    if (shown.size() > static_cast<size_t>(flags.limit)) shown.resize(flags.limit);
    return shown.empty() ? "no jobs\n" : JobTable(shown, absl::Now(), program.style());
  });
  JobWatch watch;
  watch.after_revision = first.revision();
  watch.each = [&](const v1::JobEvent& event) {
    view.Update([&] { PutInto(&jobs, event, IsWanted(event.job(), states)); });
    return true;
  };
  watch.on_outage = [&](const grpc::Status&) { view.Say(program.OutageText()); };
  watch.on_gap = [&] {
    v1::ListJobsResponse again;
    if (!FetchJobs(program, flags, &again).ok()) return;
    view.Update([&] { jobs = JobsOf(again); });
  };
  return WatchJobs(program.client(), watch);
}

int WatchList(Program& program, const JobListFlags& flags) {
  if (!WatchesInPlace(program)) {
    return TellJobChanges(
        program, [states = StatesOf(flags)](const v1::Job& job) { return IsWanted(job, states); });
  }
  v1::ListJobsResponse jobs;
  grpc::Status status = FetchJobs(program, flags, &jobs);
  if (status.ok()) status = WatchTable(program, flags, jobs);
  return program.Fail(status);
}

int ListJobs(Program& program, const JobListFlags& flags) {
  if (flags.watch) return WatchList(program, flags);
  v1::ListJobsResponse jobs;
  const grpc::Status status = FetchJobs(program, flags, &jobs);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(jobs);
    return kCliOk;
  }
  if (program.names()) {
    for (const v1::Job& job : jobs.jobs()) program.out() << NeutralLine(job.id()) << "\n";
    return kCliOk;
  }
  if (jobs.jobs().empty()) {
    program.Note(flags.states.empty() ? "no jobs yet; `paceline submit FILE` makes one"
                                      : "no job in such a state");
    return kCliOk;
  }
  program.out() << JobTable(JobsOf(jobs), absl::Now(), program.style()) << std::flush;
  if (!jobs.next_page_token().empty()) {
    program.Note(absl::StrCat("there are more; --limit shows more than ", flags.limit));
  }
  return kCliOk;
}

}  // namespace

void AddJobList(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobListFlags>();
  CLI::App* verb = parent.add_subcommand("list", "List jobs, newest first");
  verb->add_option("--state", flags->states, "Only jobs in one of these states")
      ->delimiter(',')
      ->check(CLI::IsMember(StateNames(), CLI::ignore_case));
  verb->add_option("--limit", flags->limit, "List at most so many jobs")
      ->check(WholeNumber(1, 1000000))
      ->capture_default_str();
  AddWatchFlag(*verb, &flags->watch);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ListJobs(program, *flags); };
  });
}

}  // namespace paceline
