// paceline job mode JOB [MODE]
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/verbs/plan_change.h"
#include "cli/verbs/verbs.h"
#include "cli/view/slipstream_text.h"
#include "common/core/status_macros.h"
#include "common/uuid.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

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
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  // The parser has let values pass only that are known.
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
  const grpc::Status status = program.client().ChangeMode(*request, &job);
  if (!status.ok()) return program.Fail(status);
  return flags.wait ? AwaitPlan(program, std::move(job)) : ShowPlan(program, job);
}

}  // namespace

void AddJobMode(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobModeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "mode", "Show or change the mode of a slipstream job, also while it trains");
  verb->add_option("JOB", flags->job, "Id, unique beginning of an id, or name")->required();
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
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ChangeMode(program, *flags); };
  });
}

}  // namespace paceline
