// A trainer without training: activates each plan at once, answers profile requests with a result
// that repeats the request, reports saves without making any, and runs until told to stop.
//
// Order n is answered with n durable saves, of steps 10 to 10 n; with `now`, it is answered with a
// failure to agree. A step to commit is reported as committed, or, if negative, as left out. A
// restore fails.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

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

absl::Status Run(Control& control) {
  const absl::StatusOr<TrainerConfig> config = control.WaitForConfig();
  if (!config.ok()) return config.status();
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
  absl::StatusOr<std::unique_ptr<Control>> control = Control::Start(options);
  if (!control.ok()) return 2;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  return (*control)->Finish(Run(**control));
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
