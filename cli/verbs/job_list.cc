// paceline job list
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/table.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint_text.h"
#include "cli/view/job_text.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;

struct JobListFlags {
  std::vector<std::string> states;
  int limit = 50;
};

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i) {
    names.push_back(absl::AsciiStrToLower(v1::JobState_Name(i)));
  }
  return names;
}

// Pages until there are `limit` jobs, or no more.
grpc::Status FetchJobs(Program& program, const JobListFlags& flags, v1::ListJobsResponse* jobs) {
  v1::ListJobsRequest request;
  for (const std::string& name : flags.states) {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    v1::JobState_Parse(absl::AsciiStrToUpper(name), &state);
    request.add_states(state);
  }
  do {
    request.set_page_size(std::min(kMostPerPage, flags.limit - jobs->jobs_size()));
    v1::ListJobsResponse page;
    const grpc::Status status = program.client().ListJobs(request, &page);
    if (!status.ok()) return status;
    jobs->mutable_jobs()->MergeFrom(page.jobs());
    jobs->set_revision(page.revision());
    jobs->set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && jobs->jobs_size() < flags.limit);
  return grpc::Status::OK;
}

std::string JobTable(const v1::ListJobsResponse& jobs, absl::Time now, const PageStyle& style) {
  const bool checkpoints = std::any_of(jobs.jobs().begin(), jobs.jobs().end(),
                                       [](const v1::Job& job) { return job.has_checkpoints(); });
  std::vector<Table::Column> columns = {{"ID"},
                                        {"NAME"},
                                        {"STATE"},
                                        {"RANKS", true, true},
                                        {"STEP", true},
                                        {"LOSS", true, true},
                                        {"SAMPLES/S", true, true},
                                        {"RAN", true}};
  if (checkpoints) columns.push_back({"CHECKPOINT", true, true});
  columns.push_back({"REASON"});
  Table table(std::move(columns));
  for (const v1::Job& job : jobs.jobs()) {
    const bool stepped = job.progress().step() > 0;
    const double run = RunSeconds(job, now);
    std::vector<Table::Cell> row = {job.id(),
                                    job.spec().name(),
                                    {StateText(job.state()), StateColour(job.state())},
                                    absl::StrCat(job.spec().ranks()),
                                    absl::StrCat(job.progress().step(), "/", job.spec().steps()),
                                    stepped ? LossText(job.progress().loss()) : "",
                                    stepped ? RateText(job.progress().samples_per_s()) : "",
                                    run >= 0 ? DurationText(run) : ""};
    if (checkpoints) row.emplace_back(NewestText(job, now));
    row.emplace_back(job.reason());
    table.Add(std::move(row));
  }
  return table.Rendered(style.width, style.colours);
}

int ListJobs(Program& program, const JobListFlags& flags) {
  v1::ListJobsResponse jobs;
  const grpc::Status status = FetchJobs(program, flags, &jobs);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(jobs);
    return kCliOk;
  }
  if (jobs.jobs().empty()) {
    program.Note(flags.states.empty() ? "no jobs yet; `paceline submit FILE` makes one"
                                      : "no job in such a state");
    return kCliOk;
  }
  program.out() << JobTable(jobs, absl::Now(), program.style()) << std::flush;
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
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ListJobs(program, *flags); };
  });
}

}  // namespace paceline
