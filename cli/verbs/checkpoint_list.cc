// paceline checkpoint list [JOB]
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/neutral.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint_text.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;

struct CheckpointListFlags {
  std::string job;
  int limit = 50;
};

// Pages until there are `limit` checkpoints, or no more.
grpc::Status FetchCheckpoints(Program& program, const CheckpointListFlags& flags,
                              v1::ListCheckpointsResponse* checkpoints) {
  v1::ListCheckpointsRequest request;
  request.set_job(flags.job);
  do {
    request.set_page_size(std::min(kMostPerPage, flags.limit - checkpoints->checkpoints_size()));
    v1::ListCheckpointsResponse page;
    const grpc::Status status = program.client().ListCheckpoints(request, &page);
    if (!status.ok()) return status;
    checkpoints->mutable_checkpoints()->MergeFrom(page.checkpoints());
    checkpoints->set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && checkpoints->checkpoints_size() < flags.limit);
  return grpc::Status::OK;
}

// The name of the job if it stands for this one now, else the id.
std::string TypedJob(Program& program, const v1::Checkpoint& checkpoint) {
  v1::GetJobRequest request;
  request.set_job(checkpoint.job_name());
  v1::Job newest;
  const bool found = program.client().GetJob(request, &newest).ok();
  return NeutralLine(found && newest.id() == checkpoint.job_id() ? checkpoint.job_name()
                                                                 : checkpoint.job_id());
}

// One for each, which the controller understands: JOB/STEP, with the generation where a later one
// has saved the same step.
std::vector<std::string> TypedNames(Program& program,
                                    const v1::ListCheckpointsResponse& checkpoints) {
  std::map<std::string, std::string> jobs;
  std::map<std::pair<std::string, int64_t>, int64_t> newest;
  for (const v1::Checkpoint& checkpoint : checkpoints.checkpoints()) {
    const std::string& job = checkpoint.job_id();
    if (jobs.count(job) == 0) jobs[job] = TypedJob(program, checkpoint);
    int64_t& generation = newest[{job, checkpoint.step()}];
    generation = std::max(generation, checkpoint.generation());
  }
  std::vector<std::string> names;
  for (const v1::Checkpoint& checkpoint : checkpoints.checkpoints()) {
    const std::string& job = checkpoint.job_id();
    names.push_back(absl::StrCat(jobs[job], "/", checkpoint.step()));
    if (checkpoint.generation() < newest[{job, checkpoint.step()}]) {
      absl::StrAppend(&names.back(), ".g", checkpoint.generation());
    }
  }
  return names;
}

int ListCheckpoints(Program& program, const CheckpointListFlags& flags) {
  v1::ListCheckpointsResponse checkpoints;
  const grpc::Status status = FetchCheckpoints(program, flags, &checkpoints);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(checkpoints);
    return kCliOk;
  }
  if (program.names()) {
    for (const std::string& name : TypedNames(program, checkpoints)) program.out() << name << "\n";
    return kCliOk;
  }
  if (checkpoints.checkpoints().empty()) {
    program.Note("no checkpoints yet; `checkpoint` in the job file says when there are some");
    return kCliOk;
  }
  program.out() << CheckpointTable(checkpoints, TypedNames(program, checkpoints), absl::Now(),
                                   program.style())
                << std::flush;
  if (!checkpoints.next_page_token().empty()) {
    program.Note(absl::StrCat("there are more; --limit shows more than ", flags.limit));
  }
  return kCliOk;
}

}  // namespace

void AddCheckpointList(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointListFlags>();
  CLI::App* verb = parent.add_subcommand("list", "List checkpoints, newest first");
  verb->add_option("JOB", flags->job,
                   "Only of this job: id, unique beginning of an id, or name. Default: all");
  verb->add_option("--limit", flags->limit, "List at most so many checkpoints")
      ->check(WholeNumber(1, 1000000))
      ->capture_default_str();
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ListCheckpoints(program, *flags); };
  });
}

}  // namespace paceline
