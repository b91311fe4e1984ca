// Copies of the rank's state in host memory, through its generations.
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/core/status_macros.h"
#include "worker/trainer/copies/copy_restore.h"
#include "worker/trainer/copies/state_copies.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/loop/trainer_run.h"

namespace paceline {
namespace {

// The end of a rank waits for the last copies no longer than this: others may still need them.
constexpr absl::Duration kCopyPatience = absl::Seconds(10);

}  // namespace

void TrainerRun::MakeCopies() {
  const TrainerConfig& config = *session_.config;
  if (!config.recovery.enabled || config.recovery.copy_every_steps == 0) return;
  StateCopies::Options options;
  options.every_steps = config.recovery.copy_every_steps;
  options.steps = config.steps;
  options.send_limit = config.checkpoint.write_limit;
  options.on_report = [&conductor = *session_.conductor](const CopyReport& report) {
    conductor.SetCopies(report);
  };
  session_.copies.emplace(platform_, std::move(options));
}

void TrainerRun::FinishCopies(bool stops) {
  if (!session_.copies.has_value() || has_broken_groups_) return;
  const std::optional<Failure> failure = Guard([&] {
    session_.copies->Finish(stops ? absl::ZeroDuration() : kCopyPatience);
    return absl::OkStatus();
  });
  if (failure.has_value()) has_broken_groups_ = true;
}

absl::StatusOr<bool> TrainerRun::RunRendezvousWithCopies(const Assignment& assignment,
                                                         const Rendezvous& rendezvous) {
  if (!session_.copies.has_value() || !assignment.copies.has_value()) {
    return RunRendezvousOfMembers(assignment, rendezvous);
  }
  StateCopies& copies = *session_.copies;
  const CopyOrders& orders = *assignment.copies;
  copies.Enter(orders);
  if (orders.restore) {
    PACELINE_RETURN_IF_ERROR(RestoreCopies(rendezvous, orders, copies, session_.state));
    control_.DropEvaluationAfter(session_.state.position.step);
  }
  PACELINE_ASSIGN_OR_RETURN(const bool begins, RunRendezvousOfMembers(assignment, rendezvous));
  copies.Begin(generation_->connected.copies, session_.state.furthest);
  return begins;
}

}  // namespace paceline
