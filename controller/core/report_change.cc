#include "controller/core/report_change.h"

namespace paceline {
namespace {

bool ShowsProgress(const TrainerReport& before, const TrainerReport& after) {
  return !(before.membership == after.membership) || before.suspended != after.suspended ||
         before.stacks_file != after.stacks_file || before.progress.step != after.progress.step ||
         before.progress.phase != after.progress.phase || before.state != after.state ||
         before.pid != after.pid || before.figures.details != after.figures.details;
}

// What must survive the controller.
bool ShowsState(const TrainerReport& before, const TrainerReport& after) {
  const auto joined = [](const TrainerReport& r) { return r.membership.generation; };
  return before.state != after.state || before.pid != after.pid || !(before.plan == after.plan) ||
         before.profile.details != after.profile.details || joined(before) != joined(after);
}

}  // namespace

JobChange ChangeByOne(JobState state, bool is_member, const TrainerReport& before,
                      const TrainerReport& after) {
  if (!ShowsState(before, after)) {
    return ShowsProgress(before, after) ? JobChange::kProgress : JobChange::kNone;
  }
  // A loss is looked at before anything else can take the place.
  const bool is_lost = after.exit.has_value() && after.exit->failure != FailureKind::kNone &&
                       (state == JobState::kRunning || state == JobState::kRecovering);
  if (!is_member || is_lost) return JobChange::kState;
  const bool starts = state == JobState::kStarting && after.state != TrainerState::kExited;
  return starts ? JobChange::kProgress : JobChange::kTrainer;
}

}  // namespace paceline
