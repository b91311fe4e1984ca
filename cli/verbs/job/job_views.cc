// paceline job list and describe: jobs as they are now.
#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/rpc/watch.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/program/live_view.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/program/watch_flag.h"
#include "cli/verbs/verbs.h"
#include "cli/view/job/job_page.h"
#include "cli/view/job/job_table.h"
#include "cli/view/job/job_text.h"
#include "common/core/labels.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;

struct JobListFlags {
  std::vector<std::string> states;
  std::string selector;
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

// Whether the job is shown. List asks the controller for the same, but one of an earlier release
// knows no selectors and lists all jobs, and a watch gets all.
std::function<bool(const v1::Job&)> WantedBy(const JobListFlags& flags) {
  // The flag has been checked.
  const LabelSelector selector = LabelSelector::Parse(flags.selector).value_or(LabelSelector());
  return [selector, states = StatesOf(flags)](const v1::Job& job) {
    const auto& labels = job.spec().labels();
    return (states.empty() || std::count(states.begin(), states.end(), job.state()) > 0) &&
           selector.Matches(JobLabels(labels.begin(), labels.end()));
  };
}

// Fetches pages until there are `limit` jobs, or no more. Keeps the revision of the first page, so
// that a watch from there shows what changed while the others were fetched.
grpc::Status FetchJobs(Program& program, const JobListFlags& flags, v1::ListJobsResponse* jobs) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : StatesOf(flags)) request.add_states(state);
  request.set_label_selector(flags.selector);
  const std::function<bool(const v1::Job&)> is_wanted = WantedBy(flags);
  do {
    request.set_page_size(std::min(kMostPerPage, flags.limit - jobs->jobs_size()));
    v1::ListJobsResponse page;
    const grpc::Status status = program.client().Call(methods::kJobList, request, &page);
    if (!status.ok()) return status;
    std::copy_if(page.jobs().begin(), page.jobs().end(),
                 google::protobuf::RepeatedFieldBackInserter(jobs->mutable_jobs()), is_wanted);
    if (request.page_token().empty()) jobs->set_revision(page.revision());
    jobs->set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && jobs->jobs_size() < flags.limit);
  return grpc::Status::OK;
}

std::vector<v1::Job> JobsOf(const v1::ListJobsResponse& jobs) {
  return {jobs.jobs().begin(), jobs.jobs().end()};
}

// Inserts the job of an event, newest first, unless the list has a later state of it.
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

// Updates the table in place until Ctrl-C. `first`: what to show first.
grpc::Status WatchTable(Program& program, const JobListFlags& flags,
                        const v1::ListJobsResponse& first) {
  const std::function<bool(const v1::Job&)> is_wanted = WantedBy(flags);
  std::vector<v1::Job> jobs = JobsOf(first);
  LiveView view(program, [&] {
    std::vector<v1::Job> shown = jobs;
    if (shown.size() > static_cast<size_t>(flags.limit)) shown.resize(flags.limit);
    return shown.empty() ? "no jobs\n" : JobTable(shown, absl::Now(), program.style());
  });
  JobWatch watch;
  watch.after_revision = first.revision();
  watch.each = [&](const v1::JobEvent& event) {
    view.Update([&] { PutInto(&jobs, event, is_wanted(event.job())); });
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
  if (!WatchesInPlace(program)) return TellJobChanges(program, WantedBy(flags));
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
    for (const v1::Job& job : jobs.jobs()) program.out() << SanitizeLine(job.id()) << "\n";
    return kCliOk;
  }
  if (jobs.jobs().empty()) {
    program.Note(!flags.selector.empty() ? "no job with such labels"
                 : !flags.states.empty() ? "no job in such a state"
                                         : "no jobs yet; `paceline submit FILE` makes one");
    return kCliOk;
  }
  program.out() << JobTable(JobsOf(jobs), absl::Now(), program.style()) << std::flush;
  if (!jobs.next_page_token().empty()) {
    program.Note(absl::StrCat("there are more; --limit shows more than ", flags.limit));
  }
  return kCliOk;
}

void AddJobList(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobListFlags>();
  CLI::App* verb = parent.add_subcommand("list", "List jobs, newest first");
  verb->add_option("--state", flags->states, "Only jobs in one of these states")
      ->delimiter(',')
      ->check(CLI::IsMember(StateNames(), CLI::ignore_case));
  verb->add_option("-l,--selector", flags->selector,
                   "Only jobs with such labels: KEY=VALUE, KEY!=VALUE, KEY, !KEY; several, "
                   "separated by commas, have to hold all")
      ->check([](const std::string& text) {
        if (text.empty()) return std::string("is empty; give labels such as model=llama");
        return std::string(LabelSelector::Parse(text).status().message());
      });
  verb->add_option("--limit", flags->limit, "List at most so many jobs")
      ->check(WholeNumber(1, 1000000))
      ->capture_default_str();
  AddWatchFlag(*verb, &flags->watch);
  RunWith(*verb, program, flags, ListJobs);
}

struct JobDescribeFlags {
  std::string job;
  bool watch = false;
};

void ShowJob(Program& program, const v1::Job& job) {
  if (program.json()) {
    program.PrintJson(job);
  } else {
    program.out() << JobPage(job, absl::Now(), program.style()) << std::flush;
  }
}

// Calls `each` with the job after each change, `say` with a line about an outage. OK if the job has
// ended or was deleted.
grpc::Status WatchJob(Program& program, const v1::Job& job,
                      const std::function<void(const v1::Job&)>& each,
                      const std::function<void(const std::string&)>& say) {
  JobWatch watch;
  watch.job_id = job.id();
  watch.after_revision = job.revision();
  watch.each = [&](const v1::JobEvent& event) {
    if (event.type() == v1::DELETED) return false;
    each(event.job());
    return !HasEnded(event.job().state());
  };
  watch.on_outage = [&](const grpc::Status&) { say(program.OutageText()); };
  return HasEnded(job.state()) ? grpc::Status::OK : WatchJobs(program.client(), watch);
}

// Updates the page in place until the job has ended.
grpc::Status WatchPage(Program& program, v1::Job job) {
  LiveView view(program, [&] { return JobPage(job, absl::Now(), program.style()); });
  return WatchJob(
      program, job, [&](const v1::Job& next) { view.Update([&] { job = next; }); },
      [&](const std::string& line) { view.Say(line); });
}

// Prints the page after each change of state; JSON after each change.
grpc::Status WatchPages(Program& program, const v1::Job& job) {
  v1::JobState shown = job.state();
  if (program.json()) {
    program.PrintJsonLine(job);
  } else {
    ShowJob(program, job);
  }
  const auto each = [&](const v1::Job& next) {
    if (program.json()) {
      program.PrintJsonLine(next);
    } else if (next.state() != shown) {
      program.out() << "\n";
      ShowJob(program, next);
    }
    shown = next.state();
  };
  return WatchJob(program, job, each, [&](const std::string& line) { program.Note(line); });
}

int DescribeJob(Program& program, const JobDescribeFlags& flags) {
  v1::Job job;
  grpc::Status status = GetJob(program, flags.job, &job);
  if (!status.ok()) return program.Fail(status);
  if (flags.watch) {
    status = WatchesInPlace(program) ? WatchPage(program, job) : WatchPages(program, job);
    return status.ok() ? kCliOk : program.Fail(status);
  }
  ShowJob(program, job);
  return kCliOk;
}

void AddJobDescribe(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobDescribeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "describe", "Show everything about a job: progress, ranks, failure, spec");
  AddJob(*verb, flags->job);
  AddWatchFlag(*verb, &flags->watch);
  RunWith(*verb, program, flags, DescribeJob);
}

}  // namespace

void AddJobViews(CLI::App& parent, Program& program) {
  AddJobList(parent, program);
  AddJobDescribe(parent, program);
}

}  // namespace paceline
