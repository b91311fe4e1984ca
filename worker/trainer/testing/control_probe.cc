// A trainer without training: activates each plan at once, answers profile requests with a result
// that repeats the request, reports saves without making any, and runs until told to stop.
//
// Order n is answered with n durable saves, of steps 10 to 10 n; with `now`, it is answered with a
// failure to agree. A step to commit is reported as committed, or, if negative, as left out. A
// restore fails.
//
// With --guest it is a guest in a process that had threads before. More flags, each with any value:
//   --former   The process had a handler for SIGTERM, which exits with 9. The signal is raised once
//              more when all is over.
//   --pause    It never gets ready.
//   --fork     First it forks a child, which must not disturb it: then it exits with 3.
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "worker/trainer/generation/control.h"

namespace paceline {
namespace {

void Answer(const CheckpointPlan& plan, Control& control) {
  std::printf("checkpoints order=%lld commits=%zu\n", static_cast<long long>(plan.save.number),
              plan.commits.size());
  for (const CheckpointPlan::Commit& commit : plan.commits) {
    const int64_t step = commit.step;
    const SaveState state = step > 0 ? SaveState::kCommitted : SaveState::kSkipped;
    control.SetSave({std::abs(step), plan.save.number, state, 100, SaveFailure::kNone, ""});
  }
  if (!plan.commits.empty()) return;
  if (plan.save.now) {
    control.SetSave(
        {0, plan.save.number, SaveState::kFailed, 0, SaveFailure::kNotAgreed, "rank 1 is away"});
    return;
  }
  for (int64_t i = 1; i <= plan.save.number; ++i) {
    control.SetSave({10 * i, plan.save.number, SaveState::kDurable, 100, SaveFailure::kNone, ""});
  }
  CheckpointFigures figures;
  figures.saves = plan.save.number;
  control.SetCheckpointFigures(figures);
}

void RestForever() {
  while (true) absl::SleepFor(absl::Hours(1));
}

void ExitOnSignal(int /*signal_number*/) { ::_exit(9); }

// Whether a child can end as a program ends, and gets signals of its own.
bool ChildIsOnItsOwn(std::unique_ptr<Control>& control) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (control->Finish(absl::InternalError("of the child")) != 0) ::_exit(1);
    control.reset();
    ::raise(SIGTERM);
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
}

absl::Status Run(Control& control, bool pauses) {
  const absl::StatusOr<TrainerConfig> config = control.WaitForConfig();
  if (!config.ok()) return config.status();
  if (pauses) RestForever();
  if (!config->restore_from.empty()) {
    return absl::FailedPreconditionError("nothing can be read at " + config->restore_from);
  }
  control.SetReady(/*store_port=*/1234, /*no_slipstream=*/"");
  absl::Mutex mu;
  Assignment newest;
  control.SetMembershipListener([&](const Assignment& assignment) {
    std::printf("membership generation=%lld rank=%d of=%d\n",
                static_cast<long long>(assignment.member.generation), assignment.member.rank,
                assignment.member.world_size);
    MembershipStatus status;
    status.generation = assignment.member.generation;
    control.SetMembership(status);
    const absl::MutexLock lock(&mu);
    newest = assignment;
  });
  {
    const auto has_store = [&] { return !newest.store_address.empty(); };
    const absl::MutexLock lock(&mu);
    mu.Await(absl::Condition(&has_store));
    const absl::StatusOr<TrainingPlan> plan = PlanOf(newest);
    if (!plan.ok()) return plan.status();
    std::printf("start address=%s version=%lld\n", newest.store_address.c_str(),
                static_cast<long long>(plan->version));
  }
  control.SetRunning();
  control.SetCheckpointListener([&](const CheckpointPlan& plan) { Answer(plan, control); });
  control.SetPlanListener([&](const TrainingPlan& plan) {
    std::printf("heard version=%lld levels=%zu\n", static_cast<long long>(plan.version),
                plan.levels.size());
    control.SetPlanStatus({plan.version, plan.version, 10 * plan.version, "", 0});
  });
  int64_t answered = 0;
  while (!control.stop_requested()) {
    absl::SleepFor(absl::Milliseconds(1));
    const std::optional<ProfileRequest> profile = control.profile_request();
    if (!profile.has_value() || profile->id == answered) continue;
    answered = profile->id;
    ProfileResult result;
    result.id = profile->id;
    result.first_step = profile->first_step;
    result.steps = profile->steps;
    control.SetProfile(result);
    RankFigures figures;
    figures.step = answered;
    control.SetFigures(figures);
  }
  control.SetMembershipListener(nullptr);
  control.SetPlanListener(nullptr);
  control.SetCheckpointListener(nullptr);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  Control::Options options;
  options.directory = flags["--dir"];
  options.socket = flags["--socket"];
  options.guest = flags.count("--guest") > 0;
  if (options.guest) {
    for (int i = 0; i < 2; ++i) std::thread(RestForever).detach();
  }
  const bool has_former = flags.count("--former") > 0;
  if (has_former) ::signal(SIGTERM, ExitOnSignal);
  absl::StatusOr<std::unique_ptr<Control>> control = Control::Start(options);
  if (!control.ok()) return 2;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  if (flags.count("--fork") > 0 && !ChildIsOnItsOwn(*control)) return 3;
  const int code = (*control)->Finish(Run(**control, flags.count("--pause") > 0));
  if (has_former) ::raise(SIGTERM);
  return code;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
