// paceline dev down
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/dev/dev_cluster.h"
#include "cli/text/neutral.h"
#include "cli/verbs/dev_common.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "common/uuid.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

constexpr absl::Duration kCancelTimeout = absl::Seconds(2);

struct DevDownFlags {
  std::string dir;
  bool purge = false;
  double grace_s = 5;
};

// So that jobs are not taken for failed because their trainers were ended. A controller that
// does not answer is no reason to leave its cluster up.
void CancelJobs(Program& program, const DevDir& dir) {
  Client::Options options;
  options.server = RunningDevController(dir);
  options.timeout = kCancelTimeout;
  options.user = program.local_user();
  if (options.server.empty()) return;
  Client client(options, program.interrupt());
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  for (const v1::JobState state : {v1::QUEUED, v1::STARTING, v1::RUNNING}) {
    request.add_states(state);
  }
  v1::ListJobsResponse jobs;
  if (!client.ListJobs(request, &jobs).ok()) return;
  for (const v1::Job& job : jobs.jobs()) {
    v1::CancelJobRequest cancel;
    cancel.set_job(job.id());
    cancel.set_request_id(NewUuid());
    cancel.set_reason("the dev cluster was taken down");
    v1::Job cancelled;
    if (client.CancelJob(cancel, &cancelled).ok()) {
      program.Note(absl::StrCat("cancelled ", NeutralLine(job.spec().name()), " (",
                                NeutralLine(job.id()), ")"));
    }
  }
}

int Down(Program& program, const DevDownFlags& flags) {
  const DevDir dir = ChosenDevDir(program, flags.dir);
  std::error_code none;
  if (!std::filesystem::exists(dir.root, none)) {
    program.Note(absl::StrCat("there is no cluster in ", dir.root));
    return kCliOk;
  }
  absl::StatusOr<DevCluster> cluster = DevCluster::Open(dir);
  if (!cluster.ok()) return program.Fail(cluster.status());
  CancelJobs(program, dir);
  const absl::StatusOr<int> ended = cluster->Stop(absl::Seconds(flags.grace_s));
  if (!ended.ok()) return program.Fail(ended.status());
  if (flags.purge) {
    const absl::Status purged = cluster->Purge();
    if (!purged.ok()) return program.Fail(purged);
  }
  program.Note(
      absl::StrCat(*ended == 0 ? "nothing ran" : absl::StrCat("ended ", *ended, " processes"),
                   flags.purge ? "; removed " : "; state and logs stay in ", dir.root));
  return kCliOk;
}

}  // namespace

void AddDevDown(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<DevDownFlags>();
  CLI::App* verb = parent.add_subcommand("down", "End the cluster, with every trainer of it");
  verb->add_flag("--purge", flags->purge, "Remove its state and logs too");
  verb->add_option("--grace", flags->grace_s,
                   "Seconds between asking a process to stop and killing it")
      ->check(Number(0))
      ->capture_default_str();
  AddDirFlag(*verb, flags->dir);
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Down(program, *flags); }; });
}

}  // namespace paceline
