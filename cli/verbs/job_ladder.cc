// paceline job ladder JOB [LADDER]
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/verbs/plan_change.h"
#include "cli/verbs/verbs.h"
#include "cli/view/ladder_text.h"
#include "common/uuid.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

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
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.mutable_ladder()->Add(ladder->begin(), ladder->end());
  v1::Job job;
  const grpc::Status status = program.client().ChangeLadder(request, &job);
  if (!status.ok()) return program.Fail(status);
  return flags.wait ? AwaitPlan(program, std::move(job)) : ShowPlan(program, job);
}

}  // namespace

void AddJobLadder(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobLadderFlags>();
  CLI::App* verb =
      parent.add_subcommand("ladder", "Show or change the ladder of a job, also while it trains");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
  auto* ladder = verb->add_option(
      "LADDER", flags->ladder,
      "New levels PERIOD:SIZE or PERIOD:node|rack|all, each with :int8 if wanted, such "
      "as 2:2,4:4,8:all; or synchronous: none. Default: show the present one");
  auto* wait = verb->add_flag("--wait", flags->wait, "Wait until all ranks have taken it up");
  wait->needs(ladder);
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one")
      ->needs(ladder);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ChangeLadder(program, *flags); };
  });
}

}  // namespace paceline
